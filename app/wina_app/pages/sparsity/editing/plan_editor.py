"""Editor of the workspace's plan and bits with undo, locked cells and kept budgets."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoStack

from wina_app.heatmap.clipboard import paste
from wina_app.heatmap.selection import Selection
from wina_app.pages.sparsity.editing import constraints
from wina_app.pages.sparsity.editing.bits_values import values_for
from wina_app.pages.sparsity.editing.cell_table import CellTable
from wina_app.pages.sparsity.editing.cell_values import CellValues, ValueKey
from wina_app.pages.sparsity.editing.constraints import Constraints
from wina_app.pages.sparsity.editing.model_bits import ModelBits
from wina_app.pages.sparsity.editing.sparsity_values import SPARSITY
from wina_app.pages.sparsity.editing.undo_history import Choices, EditState, PlanHistory
from wina_app.services.workspace import Workspace
from wina_app.shared.message_view import MessageView
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.plans import Cell, SparsityPlan
from wina_core.specs.quantization import PlanPair, check_made


class EditingView(MessageView, Protocol):
    """The page as the editor sees it."""

    def show_values(self, values: CellValues) -> None:
        """Show the kind of values that edits change."""

    def show_targets(self, span: tuple[float, float] | None) -> None:
        """Show the selection's lowest and highest value; None for an empty selection."""

    def show_locks(self, locked: frozenset[Cell], selected_are_locked: bool) -> None:
        """Mark the locked cells."""

    def show_kept_budget(self, budget: float | None) -> None:
        """Show the kept budget, if any."""


class PlanEditing(QObject):
    """Editor of two maps, target sparsities and bits, of which edits change the shown one.

    Cells are (layer, index into the layout's projections).
    """

    settled = Signal()
    """A gesture ended: costly numbers of the plan can be read."""
    bits_changed = Signal()
    """Bits of the model, or settings of its quantizer."""

    def __init__(self, workspace: Workspace, view: EditingView) -> None:
        super().__init__()
        self._workspace, self._view = workspace, view
        self._choices = Choices(workspace)
        self._history = PlanHistory(self._choices)
        self._choices.constraints_changed.connect(self._show_constraints)
        self._choices.bits_changed.connect(self._on_bits)
        self._key: ValueKey = "sparsity"
        self._cells: frozenset[Cell] = frozenset()
        self._edits: dict[Cell, float] = {}
        workspace.model_changed.connect(self._model_changed)

    @property
    def undo_stack(self) -> QUndoStack:
        """Return the stack of undo steps."""
        return self._history.stack

    @property
    def in_gesture(self) -> bool:
        """Return whether a gesture, such as a drag, is under way."""
        return self._history.in_gesture

    @property
    def bits(self) -> ModelBits | None:
        """Return the model's bits; None without a plan."""
        state = self._choices.state
        return None if state is None else state.bits

    @property
    def pair(self) -> PlanPair | None:
        """Return the plan with the bits of a quantized model; None without a plan."""
        plan, quantization = self._workspace.plan, self._workspace.quantization
        return (
            None if plan is None else PlanPair(plan=plan, quantization=None if quantization == "none" else quantization)
        )

    @property
    def locked(self) -> frozenset[Cell]:
        """Return the locked cells of the shown map."""
        return self._constraints.locked

    @property
    def kept_budget(self) -> float | None:
        """Return the kept budget of the shown map, or None."""
        return self._constraints.budget

    def edit(self, key: ValueKey) -> None:
        """Edit this map from now on."""
        if key != self._key:
            if self.in_gesture:
                self.end_gesture()
            self._key = key
            self._on_bits()
            self._show_constraints()

    def select(self, cells: frozenset[Cell]) -> None:
        """Select the cells for the next edits."""
        self._cells = cells
        self.show_selection()

    def show_selection(self) -> None:
        """Show values and locks of the selected cells."""
        state = self._choices.state
        if state is not None:
            self._view.show_targets(state.table(self._key).span(self._cells))
            self._show_locks()

    def begin_gesture(self) -> None:
        """Begin one undo step; `end_gesture` ends it."""
        self._edits = {}
        self._history.begin_gesture()

    def end_gesture(self) -> None:
        """End the undo step, and say what it could not do."""
        state, asked, self._edits = self._choices.state, frozenset(self._edits), {}
        self._history.end_gesture()
        said = self._remark(state, asked) if state is not None and asked else ""
        if said:
            self._view.show_notice(said)
        elif asked:
            self._view.clear_message()
        self.settled.emit()

    def set_target(self, value: float) -> None:
        """Set the value of the selected cells."""
        self.paint(self._cells, value)

    def paint(self, cells: frozenset[Cell], value: float) -> None:
        """Set the value of these cells."""
        self._edit(
            lambda _table, kind: dict.fromkeys(cells, kind.snapped(value)),
            lambda cells, kind: tr("set {cells} to {target}", cells=cells, target=kind.text(kind.snapped(value))),
        )

    def step(self, step: int) -> None:
        """Step the selected cells up or down, by 5 as usual or by 1 a little."""
        self._edit(
            lambda table, kind: {(r, c): kind.stepped(table.rows[r][c], step) for r, c in self._cells},
            lambda cells, kind: kind.step_text(cells, step),
        )

    def shift(self, cells: frozenset[Cell], amount: float) -> None:
        """Move cells by an amount in shown numbers from their values at the gesture's begin."""
        self._edit(
            lambda table, kind: {(r, c): kind.shifted(table.rows[r][c], amount) for r, c in cells},
            lambda cells, kind: kind.shift_text(cells, amount),
        )

    def type_target(self, text: str) -> None:
        """Set the selected cells to a typed value."""
        state = self._choices.state
        try:
            self.set_target((SPARSITY if state is None else state.values(self._key)).parse(text))
        except WinaError as error:
            self._view.show_error(str(error))

    def cut(self) -> None:
        """Clear the selected cells, after copying them."""
        self._clear(lambda cells, _: tr("cut {cells}", cells=cells))

    def clear_targets(self) -> None:
        """Make the selected cells dense, or give them 16 bits."""
        self._clear(lambda cells, _: tr("clear {cells}", cells=cells))

    def paste(self, text: str, selection: Selection) -> None:
        """Paste a block of values at the selection, as one step."""
        state = self._choices.state
        if state is None:
            return
        try:
            block = paste(text, selection, state.plan.layout.projections, state.values(self._key).format)
        except WinaError as error:
            self._view.show_error(str(error))
            return
        self._edit(lambda *_: block.values, lambda cells, _: tr("paste {cells}", cells=cells))
        if block.remark and not block.values.keys() <= self.locked:
            self._view.show_notice(block.remark)

    def set_uniform(self, sparsity: float) -> None:
        """Set the same target (fraction) everywhere."""
        if self._workspace.plan is not None:
            uniform = SparsityPlan.uniform(self._workspace.plan.layout, sparsity)
            self.take_over(PlanPair(plan=uniform), SPARSITY.uniform_text(sparsity))

    def set_uniform_bits(self, bits: float) -> None:
        """Give every matrix the same bits."""
        state = self._choices.state
        if state is not None:
            table = CellTable.uniform(state.plan.layout, bits)
            self._take_over({"bits": table}, state, state, values_for(state.bits.settings).uniform_text(bits))

    def take_over(self, pair: PlanPair, text: str, method: MethodSpec | None = None) -> None:
        """Replace the plan, and with a quantization the bits, except locked cells, as one undo step.

        A plan of another layout is refused. The new budgets are kept if one was. `method` replaces the chosen one.
        """
        found, quantization = pair.plan, pair.quantization
        state = self._choices.state
        if state is None:
            self._view.show_error(tr("No model is open; a plan belongs to a model's layers, so open one first."))
            return
        try:
            found.for_layout(state.plan.layout)
            bits = None if quantization is None else ModelBits.of(quantization, state.plan.layout)
        except WinaError as error:
            self._view.show_error(str(error))
            return
        tables: dict[ValueKey, CellTable] = {"sparsity": CellTable(found.layout, found.sparsity, found.provenance)}
        after = replace(state, plan=state.plan.model_copy(update={"rho": found.rho}), method=method or state.method)
        if bits is not None:
            tables["bits"] = bits.table
            after = replace(after, bits=bits)
        self._take_over(tables, state, after, text)
        try:
            check_made(quantization or "none")
        except WinaError as error:  # the bits stay, for another quantizer
            self._view.show_notice(str(error))

    def change_quantizer(self, **settings: Any) -> None:
        """Change settings of the quantizer."""
        state = self._choices.state
        if state is None:
            return
        match settings:
            case {"by_energy": by_energy, **others} if not others:
                text = tr("bits by energy") if by_energy else tr("equal bits in a matrix")
            case _:
                named = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in settings.items())
                text = tr("quantize with {settings}", settings=named)
        self._history.change(text, replace(state, bits=state.bits.with_settings(**settings)))
        self.settled.emit()

    def toggle_locks(self) -> None:
        """Lock the selected cells, or unlock them if all are locked."""
        if not self._cells:
            return
        cells = tr("{n} cells", "{n} cell", len(self._cells))
        if self._cells <= self.locked:
            text, locked = tr("unlock {cells}", cells=cells), self.locked - self._cells
        else:
            text, locked = tr("lock {cells}", cells=cells), self.locked | self._cells
        self._constrain(text, locked=locked)

    def unlock_all(self) -> None:
        """Unlock all cells of the shown map."""
        self._constrain(tr("unlock all cells"), locked=frozenset())

    def keep_budget(self, on: bool) -> None:
        """Keep the shown map's current budget in later edits, or stop keeping it."""
        state = self._choices.state
        if state is None:
            return
        budget = state.table(self._key).budget
        kept = tr("keep the budget of {budget}", budget=state.values(self._key).text(budget))
        self._constrain(kept if on else tr("stop keeping the budget"), budget=budget if on else None)

    def set_method(self, method: MethodSpec) -> None:
        """Choose the method."""
        state = self._choices.state
        if state is None:
            self._workspace.set_method(method)
        else:
            self._history.change(tr("choose {method}", method=method.label), replace(state, method=method))

    @property
    def _constraints(self) -> Constraints:
        return self._choices.constraints.get(self._key, Constraints())

    def _constrain(self, text: str, **changes: Any) -> None:
        state = self._choices.state
        if state is not None:
            after = replace(self._constraints, **changes)
            self._history.change(text, state.with_constraints(self._key, after))

    def _clear(self, text: Callable[[str, CellValues], str]) -> None:
        self._edit(lambda _, kind: dict.fromkeys(self._cells, kind.empty), text)

    def _edit(
        self,
        values: Callable[[CellTable, CellValues], Mapping[Cell, float]],
        text: Callable[[str, CellValues], str],
    ) -> None:
        """Set values on top of those of the same gesture; both are made of the table at its begin.

        `text` describes the edit of "3 cells".
        """
        start = self._history.start
        if start is None:
            return
        table, kind, kept = start.table(self._key), start.values(self._key), start.constrained(self._key)
        wanted = values(table, kind)
        if not wanted:
            return
        alone = not self.in_gesture
        if alone:
            self.begin_gesture()
        self._edits |= wanted
        after = constraints.edited(table, self._edits, kept, kind)
        cells = tr("{n} cells", "{n} cell", len(self._edits.keys() - kept.locked))
        self._history.change(text(cells, kind), self._present.with_table(self._key, after))
        if alone:
            self.end_gesture()

    def _take_over(self, tables: Mapping[ValueKey, CellTable], before: EditState, after: EditState, text: str) -> None:
        """Replace whole maps of `before` except their locked cells; `after` has everything else."""
        stayed, said = 0, ""
        for key, found in tables.items():
            kept, kind = before.constrained(key), after.values(key)
            if kept.budget is not None:
                kept = replace(kept, budget=found.budget)
            table = constraints.replaced(before.table(key), found, kept, kind)
            after = after.with_table(key, table).with_constraints(key, kept)
            stayed += len(kept.locked) if table is not found else 0
            said = said or constraints.remark(table, table.cells, kept, kind)
        self._history.change(text, after)
        if said or stayed:
            self._view.show_notice(said or constraints.kept_remark(stayed))
        else:
            self._view.clear_message()

    @property
    def _present(self) -> EditState:
        state = self._choices.state
        assert state is not None  # there is something to edit
        return state

    def _remark(self, state: EditState, asked: frozenset[Cell]) -> str:
        return constraints.remark(state.table(self._key), asked, state.constrained(self._key), state.values(self._key))

    def _on_bits(self) -> None:
        """Show the kind of the shown map's values, which is another one by energy."""
        state = self._choices.state
        if state is not None:
            self._view.show_values(state.values(self._key))
            self.show_selection()
        self.bits_changed.emit()

    def _model_changed(self) -> None:
        """Forget selection and constraints, unless the model has the plan's layout."""
        plan, summary = self._workspace.plan, self._workspace.summary
        fits = plan is not None and summary is not None and plan.layout == summary.layout
        if not fits:
            self._cells = frozenset()
            self._choices.constrain({})
        self._edits = {}
        self._history.clear()

    def _show_constraints(self) -> None:
        self._view.show_kept_budget(self.kept_budget)
        self._show_locks()

    def _show_locks(self) -> None:
        self._view.show_locks(self.locked, bool(self._cells) and self._cells <= self.locked)
