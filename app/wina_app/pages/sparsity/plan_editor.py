"""Editor of the workspace's plan and bits with undo, locked cells and kept budgets."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoStack

from wina_app.heatmap.clipboard import paste
from wina_app.heatmap.selection import Selection
from wina_app.pages.sparsity.cell_values import SPARSITY, CellValues, ValueKey
from wina_app.pages.sparsity.edit_model import CellTable, Constraints, EditCommand, EditModel, EditState, ModelBits
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.services.workspace import Workspace
from wina_app.style.number_format import plural
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.plans import Cell, SparsityPlan
from wina_core.specs.quantization import PlanPair, check_made


class PlanEditor(QObject):
    """Editor of two maps, target sparsities and bits, of which edits change the shown one.

    Cells are (layer, index into the layout's projections).
    """

    settled = Signal()
    """A gesture ended: costly numbers of the plan can be read."""
    bits_changed = Signal()
    """Bits of the model, or settings of its quantizer."""

    def __init__(self, workspace: Workspace, view: SparsityPage) -> None:
        super().__init__()
        self._workspace, self._view = workspace, view
        self._model = EditModel(workspace)
        self.undo_stack = QUndoStack()
        self._gesture = 0
        """Number of the gesture, by which its commands merge."""
        self._start: EditState | None = None
        """State at the gesture's begin; None outside of one."""
        self._model.constraints_changed.connect(self._show_constraints)
        self._model.bits_changed.connect(self._show_values)
        self._key: ValueKey = "sparsity"
        self._cells: frozenset[Cell] = frozenset()
        self._edits: dict[Cell, float] = {}
        workspace.model_changed.connect(self._model_changed)

    @property
    def in_gesture(self) -> bool:
        return self._start is not None

    @property
    def bits(self) -> ModelBits | None:
        """Return the model's bits; None without a plan."""
        state = self._model.state
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
            if self.in_gesture:  # its edits belong to the map that is left
                self.end_gesture()
            self._key = key
            self._show_values()
            self._show_constraints()

    def select(self, cells: frozenset[Cell]) -> None:
        self._cells = cells
        self.show_selection()

    def show_selection(self) -> None:
        """Show values and locks of the selected cells."""
        state = self._model.state
        if state is not None:
            self._view.show_targets(state.table(self._key).span(self._cells))
            self._show_locks()

    def begin_gesture(self) -> None:
        """Begin one undo step; `end_gesture` ends it."""
        self._edits = {}
        self._gesture += 1
        self._start = self._model.state

    def end_gesture(self) -> None:
        """End the undo step, and say what it could not do."""
        state, edited, self._edits = self._model.state, frozenset(self._edits), {}
        self._start = None
        remark = ""
        if state is not None and edited:
            constraints = state.constraints_on(self._key)
            remark = constraints.remark(state.table(self._key), edited, state.values(self._key))
        if remark:
            self._view.show_notice(remark)
        elif edited:
            self._view.clear_message()
        self.settled.emit()

    def set_target(self, value: float) -> None:
        self.paint(self._cells, value)

    def paint(self, cells: frozenset[Cell], value: float) -> None:
        self._edit(
            lambda _table, kind: dict.fromkeys(cells, kind.snapped(value)),
            lambda cells, kind: f"set {cells} to {kind.text(kind.snapped(value))}",
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
        state = self._model.state
        try:
            self.set_target((SPARSITY if state is None else state.values(self._key)).parse(text))
        except WinaError as error:
            self._view.show_error(str(error))

    def cut(self) -> None:
        """Clear the selected cells, which the heatmap has copied."""
        self._clear(lambda cells, _: f"cut {cells}")

    def clear_targets(self) -> None:
        """Make the selected cells dense, or give them 16 bits."""
        self._clear(lambda cells, _: f"clear {cells}")

    def paste(self, text: str, selection: Selection) -> None:
        """Paste a block of values at the selection, as one step."""
        state = self._model.state
        if state is None:
            return
        try:
            block = paste(text, selection, state.plan.layout.projections, state.values(self._key).format)
        except WinaError as error:
            self._view.show_error(str(error))
            return
        self._edit(lambda *_: block.values, lambda cells, _: f"paste {cells}")
        if block.remark and not block.values.keys() <= self.locked:
            self._view.show_notice(block.remark)

    def set_uniform(self, sparsity: float) -> None:
        """Set the same target (fraction) everywhere."""
        if self._workspace.plan is not None:
            uniform = SparsityPlan.uniform(self._workspace.plan.layout, sparsity)
            self.replace_plan(PlanPair(plan=uniform), f"uniform plan of {SPARSITY.text(sparsity)}")

    def set_uniform_bits(self, bits: float) -> None:
        """Give every matrix the same bits."""
        state = self._model.state
        if state is not None:
            table = CellTable.uniform(state.plan.layout, bits)
            text = f"uniform plan of {state.bits.values.text(bits)}"
            self._replace_tables({"bits": table}, state, state, text)

    def replace_plan(self, pair: PlanPair, text: str, method: MethodSpec | None = None) -> None:
        """Replace the plan, and with a quantization the bits, except locked cells, as one undo step.

        A plan of another layout is refused. The new budgets are kept if one was. `method` replaces the chosen one.
        """
        plan, quantization = pair.plan, pair.quantization
        state = self._model.state
        if state is None:
            self._view.show_error("No model is open; a plan belongs to a model's layers, so open one first.")
            return
        try:
            plan.for_layout(state.plan.layout)
            bits = None if quantization is None else ModelBits.of(quantization, state.plan.layout)
        except WinaError as error:
            self._view.show_error(str(error))
            return
        tables: dict[ValueKey, CellTable] = {"sparsity": CellTable(plan.layout, plan.sparsity, plan.provenance)}
        after = replace(state, plan=state.plan.model_copy(update={"rho": plan.rho}), method=method or state.method)
        if bits is not None:
            tables["bits"] = bits.table
            after = replace(after, bits=bits)
        self._replace_tables(tables, state, after, text)
        try:
            check_made(quantization or "none")
        except WinaError as error:  # the bits stay, for another quantizer
            self._view.show_notice(str(error))

    def change_quantizer(self, **settings: Any) -> None:
        state = self._model.state
        if state is None:
            return
        match settings:
            case {"by_energy": by_energy, **others} if not others:
                text = "bits by energy" if by_energy else "equal bits in a matrix"
            case _:
                named = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in settings.items())
                text = f"quantize with {named}"
        self._change(text, replace(state, bits=state.bits.with_settings(**settings)))
        self.settled.emit()

    def toggle_locks(self) -> None:
        """Lock the selected cells, or unlock them if all are locked."""
        if not self._cells:
            return
        cells = plural(len(self._cells), "cells", "cell")
        if self._cells <= self.locked:
            text, locked = f"unlock {cells}", self.locked - self._cells
        else:
            text, locked = f"lock {cells}", self.locked | self._cells
        self._constrain(text, locked=locked)

    def unlock_all(self) -> None:
        self._constrain("unlock all cells", locked=frozenset())

    def keep_budget(self, on: bool) -> None:
        """Keep the shown map's current budget in later edits, or stop keeping it."""
        state = self._model.state
        if state is None:
            return
        budget = state.table(self._key).budget
        text = f"keep the budget of {state.values(self._key).text(budget)}"
        self._constrain(text if on else "stop keeping the budget", budget=budget if on else None)

    def set_method(self, method: MethodSpec) -> None:
        state = self._model.state
        if state is None:
            self._workspace.set_method(method)
        else:
            self._change(f"choose {method.label}", replace(state, method=method))

    @property
    def _constraints(self) -> Constraints:
        return self._model.constraints.get(self._key, Constraints())

    def _constrain(self, text: str, **changes: Any) -> None:
        state = self._model.state
        if state is not None:
            after = replace(self._constraints, **changes)
            self._change(text, state.with_constraints(self._key, after))

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
        # From the table at the gesture's begin, so that the compensation for a kept budget does not add up while a
        # drag passes many values.
        start = self._start or self._model.state
        if start is None:
            return
        table, kind, constraints = start.table(self._key), start.values(self._key), start.constraints_on(self._key)
        new_values = values(table, kind)
        if not new_values:
            return
        alone = not self.in_gesture
        if alone:
            self.begin_gesture()
        self._edits |= new_values
        after = constraints.edit(table, self._edits, kind)
        cells = plural(len(self._edits.keys() - constraints.locked), "cells", "cell")
        self._change(text(cells, kind), self._current_state.with_table(self._key, after))
        if alone:
            self.end_gesture()

    def _change(self, text: str, after: EditState) -> None:
        """Apply a new state as one undo step, or as part of the gesture; `text` names the step."""
        before = self._current_state
        # The very objects of an equal state are used again: `apply` compares plans by identity, and readers keep what
        # they computed of a plan.
        for base in (self._start or before, before):
            after = after.reuse_equal(base)
        if after == before:
            return
        if not self.in_gesture:
            self._gesture += 1  # commands of one gesture merge, a single edit with no other
        # Qt calls `redo` of a pushed command, which applies the state.
        self.undo_stack.push(EditCommand(self._model, before, after, text, self._gesture))

    def _replace_tables(
        self, tables: Mapping[ValueKey, CellTable], before: EditState, after: EditState, text: str
    ) -> None:
        """Replace whole maps of `before` except their locked cells; `after` has everything else."""
        locked_cells, remark = 0, ""
        for key, new_table in tables.items():
            constraints, kind = before.constraints_on(key), after.values(key)
            if constraints.budget is not None:
                constraints = replace(constraints, budget=new_table.budget)
            # The very new table if no locked cell changes it.
            table = constraints.substitute(before.table(key), new_table, kind)
            after = after.with_table(key, table).with_constraints(key, constraints)
            locked_cells += len(constraints.locked) if table is not new_table else 0
            remark = remark or constraints.remark(table, table.cells, kind)
        self._change(text, after)
        if locked_cells and not remark:
            cells = plural(locked_cells, "locked cells", "locked cell")
            remark = f"{cells} stayed unchanged; all others follow the new plan."
        if remark:
            self._view.show_notice(remark)
        else:
            self._view.clear_message()

    @property
    def _current_state(self) -> EditState:
        state = self._model.state
        assert state is not None  # there is something to edit
        return state

    def _show_values(self) -> None:
        """Show the kind of the shown map's values, which is another one by energy."""
        state = self._model.state
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
            self._model.constrain({})
        self._edits = {}
        self._start = None
        self.undo_stack.clear()  # in any case: its steps would apply the bits of the earlier model

    def _show_constraints(self) -> None:
        self._view.editor.show_kept(self.kept_budget)
        self._show_locks()

    def _show_locks(self) -> None:
        self._view.show_locks(self.locked, bool(self._cells) and self._cells <= self.locked)
