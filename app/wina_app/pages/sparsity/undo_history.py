"""Undo history of the Sparsity page; a gesture is one step."""

from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack

from wina_app.pages.sparsity.allocation_summary import same_table
from wina_app.pages.sparsity.constraints import Constraints
from wina_app.services.workspace import Workspace
from wina_core.specs import MethodSpec
from wina_core.specs.plans import SparsityPlan


@dataclass(frozen=True)
class EditState:
    """Immutable state that an undo step changes."""

    plan: SparsityPlan | None
    method: MethodSpec
    constraints: Constraints


class Choices(QObject):
    """Owner of the state: the workspace, and the constraints on edits."""

    constraints_changed = Signal()

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self._workspace = workspace
        self.constraints = Constraints()

    @property
    def state(self) -> EditState:
        """Return the current state."""
        return EditState(self._workspace.plan, self._workspace.method, self.constraints)

    def go(self, there: EditState, here: EditState) -> None:
        """Apply what differs between `here` and `there`; other later changes stay."""
        if there.method != here.method:
            self._workspace.set_method(there.method)
        if there.constraints != here.constraints:
            self.constrain(there.constraints)
        if there.plan is not None and there.plan is not here.plan:
            self._workspace.set_plan(there.plan)

    def constrain(self, constraints: Constraints) -> None:
        """Set the constraints on edits."""
        if constraints != self.constraints:
            self.constraints = constraints
            self.constraints_changed.emit()


class SparsityHistory:
    """QUndoStack over the state. No step refers to the stack: Qt deletes its steps, and a cycle would outlive them."""

    def __init__(self, choices: Choices) -> None:
        self.stack = QUndoStack()
        self._choices = choices
        self._gesture = 0
        self._start: EditState | None = None

    @property
    def start(self) -> EditState:
        """Return the state at the gesture's begin; outside a gesture the current one."""
        return self._start or self._choices.state

    @property
    def in_gesture(self) -> bool:
        """Return whether a gesture is under way."""
        return self._start is not None

    def begin_gesture(self) -> None:
        """Begin one undo step; `end_gesture` ends it."""
        self._gesture += 1
        self._start = self._choices.state

    def end_gesture(self) -> None:
        """End the undo step."""
        self._start = None

    def clear(self) -> None:
        """Forget all undo steps."""
        self.stack.clear()
        self._start = None

    def change(
        self,
        text: str,
        *,
        plan: SparsityPlan | None = None,
        method: MethodSpec | None = None,
        constraints: Constraints | None = None,
    ) -> None:
        """Apply changes as one undo step, or as part of the gesture; `text` names the step."""
        before = self._choices.state
        after = EditState(plan or before.plan, method or before.method, constraints or before.constraints)
        for known in (self.start.plan, before.plan):
            if after.plan is not None and same_table(known, after.plan):
                after = replace(after, plan=known)
        if after == before:
            return
        if not self.in_gesture:
            self._gesture += 1
        self.stack.push(_Step(self._choices, before, after, text, self._gesture))


class _Step(QUndoCommand):
    def __init__(self, choices: Choices, before: EditState, after: EditState, text: str, gesture: int) -> None:
        super().__init__(text)
        self._choices = choices
        self._before = before
        self._after = after
        self._gesture = gesture

    def id(self) -> int:
        return 1

    def mergeWith(self, other: QUndoCommand) -> bool:
        if not isinstance(other, _Step) or other._gesture != self._gesture:
            return False
        self._after = other._after
        self.setText(other.text())
        self.setObsolete(self._after == self._before)  # dragged there and back
        return True

    def redo(self) -> None:
        self._choices.go(self._after, self._before)

    def undo(self) -> None:
        self._choices.go(self._before, self._after)
