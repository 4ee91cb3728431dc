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

    def reuse_equal(self, other: "EditState") -> "EditState":
        """Return the state with the very plan and bits of another where these are equal but for their provenance."""
        same_bits = (self.bits.settings, self.bits.table.rows) == (other.bits.settings, other.bits.table.rows)
        return replace(
            self,
            plan=other.plan if same_table(other.plan, self.plan) else self.plan,
            bits=other.bits if same_bits else self.bits,
        )

    def with_constraints(self, key: ValueKey, constraints: Constraints) -> "EditState":
        """Return the state with other constraints on one map."""
        remaining = {map_key: value for map_key, value in self.constraints.items() if map_key != key}
        return replace(self, constraints=remaining if constraints == _FREE else remaining | {key: constraints})


class EditModel(QObject):
    """Owner of the state: the workspace, the quantizer's settings, and the constraints on edits."""

    constraints_changed = Signal()
    bits_changed = Signal()
    """Bits of the model, or settings of its quantizer."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self._workspace = workspace
        self._bits: ModelBits | None = None
        self.constraints: Mapping[ValueKey, Constraints] = {}
        workspace.quantization_changed.connect(self._drop_outdated_bits)
        workspace.model_changed.connect(self._drop_outdated_bits)

    @property
    def state(self) -> EditState | None:
        """Return the current state; None before there is a plan."""
        plan, bits = self._workspace.plan, self._bits
        if plan is None:
            return None
        if bits is None or bits.table.layout != plan.layout:
            self._bits = bits = ModelBits.of(self._workspace.quantization, plan.layout)
        return EditState(plan, bits, self._workspace.method, self.constraints)

    def apply(self, target: EditState, previous: EditState) -> None:
        """Apply what differs between `previous` and `target`; other later changes stay."""
        if target.method != previous.method:
            self._workspace.set_method(target.method)
        if target.constraints != previous.constraints:
            self.constrain(target.constraints)
        if target.bits != previous.bits:
            self._bits = target.bits
            self._workspace.set_quantization(target.bits.quantization)
            self.bits_changed.emit()
        if target.plan is not previous.plan:
            self._workspace.set_plan(target.plan)

    def constrain(self, constraints: Mapping[ValueKey, Constraints]) -> None:
        """Set the constraints on edits."""
        if constraints != self.constraints:
            self.constraints = constraints
            self.constraints_changed.emit()

    def _drop_outdated_bits(self) -> None:
        """Take over a quantization that was chosen elsewhere."""
        if self._bits is not None and self._bits.quantization != self._workspace.quantization:
            self._bits = None
            self.bits_changed.emit()


class PlanHistory:
    """QUndoStack over the state. No step refers to the stack: Qt deletes its steps, and a cycle would outlive them."""

    def __init__(self, model: EditModel) -> None:
        self.stack = QUndoStack()
        self._model = model
        self._gesture = 0
        self._start: EditState | None = None

    @property
    def start(self) -> EditState | None:
        """Return the state at the gesture's begin; outside a gesture the current one."""
        return self._start or self._model.state

    @property
    def in_gesture(self) -> bool:
        """Return whether a gesture is under way."""
        return self._start is not None

    def begin_gesture(self) -> None:
        """Begin one undo step; `end_gesture` ends it."""
        self._gesture += 1
        self._start = self._model.state

    def end_gesture(self) -> None:
        """End the undo step."""
        self._start = None

    def clear(self) -> None:
        """Forget all undo steps."""
        self.stack.clear()
        self._start = None

    def change(self, text: str, after: EditState) -> None:
        """Apply a new state as one undo step, or as part of the gesture; `text` names the step."""
        before = self._model.state
        assert before is not None  # what `after` was made of
        for base in (self.start, before):
            after = after if base is None else after.reuse_equal(base)
        if after == before:
            return
        if not self.in_gesture:
            self._gesture += 1
        self.stack.push(_EditCommand(self._model, before, after, text, self._gesture))


class _EditCommand(QUndoCommand):
    def __init__(self, model: EditModel, before: EditState, after: EditState, text: str, gesture: int) -> None:
        super().__init__(text)
        self._model = model
        self._before = before
        self._after = after
        self._gesture = gesture

    def id(self) -> int:
        return 1

    def mergeWith(self, other: QUndoCommand) -> bool:
        if not isinstance(other, _EditCommand) or other._gesture != self._gesture:
            return False
        self._after = other._after
        self.setText(other.text())
        self.setObsolete(self._after == self._before)  # dragged there and back
        return True

    def redo(self) -> None:
        self._model.apply(self._after, self._before)

    def undo(self) -> None:
        self._model.apply(self._before, self._after)
