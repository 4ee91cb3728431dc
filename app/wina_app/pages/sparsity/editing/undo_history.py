"""Undo history of the Sparsity page; a gesture is one step."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack

from wina_app.pages.sparsity.editing.cell_table import CellTable
from wina_app.pages.sparsity.editing.cell_values import CellValues, ValueKey
from wina_app.pages.sparsity.editing.constraints import Constraints
from wina_app.pages.sparsity.editing.model_bits import ModelBits
from wina_app.pages.sparsity.editing.sparsity_values import SPARSITY
from wina_app.services.workspace import Workspace
from wina_core.specs import MethodSpec
from wina_core.specs.plans import SparsityPlan, same_table

_FREE = Constraints()


@dataclass(frozen=True)
class EditState:
    """Immutable state that an undo step changes."""

    plan: SparsityPlan
    bits: ModelBits
    method: MethodSpec
    constraints: Mapping[ValueKey, Constraints] = field(default_factory=dict)

    def table(self, key: ValueKey) -> CellTable:
        """Return the values of one map."""
        if key == "bits":
            return self.bits.table
        return CellTable(self.plan.layout, self.plan.sparsity, self.plan.provenance)

    def values(self, key: ValueKey) -> CellValues:
        """Return the kind of one map's values."""
        return self.bits.values if key == "bits" else SPARSITY

    def constrained(self, key: ValueKey) -> Constraints:
        """Return the constraints on one map."""
        return self.constraints.get(key, _FREE)

    def with_table(self, key: ValueKey, table: CellTable) -> "EditState":
        """Return the state with other values in one map."""
        if key == "bits":
            return replace(self, bits=self.bits.with_table(table))
        if table.rows == self.plan.sparsity:
            return self
        plan = SparsityPlan(layout=table.layout, sparsity=table.rows, provenance=table.provenance, rho=self.plan.rho)
        return replace(self, plan=plan)

    def like(self, known: "EditState") -> "EditState":
        """Return the state with the very plan and bits of another where these are equal but for their provenance."""
        same_bits = (self.bits.settings, self.bits.table.rows) == (known.bits.settings, known.bits.table.rows)
        return replace(
            self,
            plan=known.plan if same_table(known.plan, self.plan) else self.plan,
            bits=known.bits if same_bits else self.bits,
        )

    def with_constraints(self, key: ValueKey, constraints: Constraints) -> "EditState":
        """Return the state with other constraints on one map."""
        others = {other: each for other, each in self.constraints.items() if other != key}
        return replace(self, constraints=others if constraints == _FREE else others | {key: constraints})


class Choices(QObject):
    """Owner of the state: the workspace, the quantizer's settings, and the constraints on edits."""

    constraints_changed = Signal()
    bits_changed = Signal()
    """Bits of the model, or settings of its quantizer."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self._workspace = workspace
        self._bits: ModelBits | None = None
        self.constraints: Mapping[ValueKey, Constraints] = {}
        workspace.quantization_changed.connect(self._follow)
        workspace.model_changed.connect(self._follow)

    @property
    def state(self) -> EditState | None:
        """Return the current state; None before there is a plan."""
        plan, bits = self._workspace.plan, self._bits
        if plan is None:
            return None
        if bits is None or bits.table.layout != plan.layout:
            self._bits = bits = ModelBits.of(self._workspace.quantization, plan.layout)
        return EditState(plan, bits, self._workspace.method, self.constraints)

    def go(self, there: EditState, here: EditState) -> None:
        """Apply what differs between `here` and `there`; other later changes stay."""
        if there.method != here.method:
            self._workspace.set_method(there.method)
        if there.constraints != here.constraints:
            self.constrain(there.constraints)
        if there.bits != here.bits:
            self._bits = there.bits
            self._workspace.set_quantization(there.bits.quantization)
            self.bits_changed.emit()
        if there.plan is not here.plan:
            self._workspace.set_plan(there.plan)

    def constrain(self, constraints: Mapping[ValueKey, Constraints]) -> None:
        """Set the constraints on edits."""
        if constraints != self.constraints:
            self.constraints = constraints
            self.constraints_changed.emit()

    def _follow(self) -> None:
        """Take over a quantization that was chosen elsewhere."""
        if self._bits is not None and self._bits.quantization != self._workspace.quantization:
            self._bits = None
            self.bits_changed.emit()


class PlanHistory:
    """QUndoStack over the state. No step refers to the stack: Qt deletes its steps, and a cycle would outlive them."""

    def __init__(self, choices: Choices) -> None:
        self.stack = QUndoStack()
        self._choices = choices
        self._gesture = 0
        self._start: EditState | None = None

    @property
    def start(self) -> EditState | None:
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

    def change(self, text: str, after: EditState) -> None:
        """Apply a new state as one undo step, or as part of the gesture; `text` names the step."""
        before = self._choices.state
        assert before is not None  # what `after` was made of
        for known in (self.start, before):
            after = after if known is None else after.like(known)
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
