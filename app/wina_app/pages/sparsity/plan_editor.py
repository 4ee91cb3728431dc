"""Edits the workspace's sparsity plan, around locked cells and keeping the budget if asked to; all can be undone."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoStack

from wina_app.heatmap.clipboard import paste
from wina_app.heatmap.selection import Selection
from wina_app.pages.sparsity import constraints, edits
from wina_app.pages.sparsity.undo_history import Choices, SparsityHistory
from wina_app.services.workspace import Workspace
from wina_app.style.number_format import percent
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.plans import Cell, SparsityPlan


class EditingView(Protocol):
    """What editing needs of the page."""

    def show_targets(self, span: tuple[float, float] | None) -> None:
        """Show the lowest and highest target of the selection in slider and spin box; None when it is empty."""

    def show_locks(self, locked: frozenset[Cell], selected_are_locked: bool) -> None:
        """Mark the locked cells."""

    def show_kept_budget(self, budget: float | None) -> None:
        """Show which budget is kept, if one is."""

    def show_error(self, text: str) -> None:
        """Show an error inline."""

    def show_notice(self, text: str) -> None:
        """Show a remark inline."""

    def clear_message(self) -> None:
        """Take the inline message away."""


class SparsityEditing(QObject):
    """Between the page's controls and the plan. Cells are (layer, index into the layout's projections)."""

    settled = Signal()
    """A gesture is over: what is costly to find out about the plan is worth it now."""

    def __init__(self, workspace: Workspace, view: EditingView) -> None:
        super().__init__()
        self._workspace, self._view = workspace, view
        self._choices = Choices(workspace)
        self._history = SparsityHistory(self._choices)
        self._choices.constraints_changed.connect(self._show_constraints)
        self._cells: frozenset[Cell] = frozenset()
        self._edits: dict[Cell, float] = {}
        workspace.model_changed.connect(self._model_changed)

    @property
    def undo_stack(self) -> QUndoStack:
        """What the Edit menu works on while the page is shown."""
        return self._history.stack

    @property
    def in_gesture(self) -> bool:
        """Whether a drag is under way, of which every position is a plan."""
        return self._history.in_gesture

    @property
    def locked(self) -> frozenset[Cell]:
        """The cells that no edit changes."""
        return self._choices.constraints.locked

    @property
    def kept_budget(self) -> float | None:
        """The budget that edits keep, if one is kept."""
        return self._choices.constraints.budget

    # ---- selection and gestures ----------------------------------------------------------------------------------

    def select(self, cells: frozenset[Cell]) -> None:
        """Edits concern these cells from now on."""
        self._cells = cells
        self.show_selection()

    def show_selection(self) -> None:
        """Show what the selected cells have."""
        plan = self._workspace.plan
        if plan is not None:
            self._view.show_targets(edits.target_span(plan, self._cells))
            self._show_locks()

    def begin_gesture(self) -> None:
        """What follows until `end_gesture` is one step of undo."""
        self._edits = {}
        self._history.begin_gesture()

    def end_gesture(self) -> None:
        """The gesture is over: say what of it could not be done."""
        plan, asked, self._edits = self._workspace.plan, frozenset(self._edits), {}
        self._history.end_gesture()
        said = constraints.remark(plan, asked, self._choices.constraints) if plan is not None and asked else ""
        if said:
            self._view.show_notice(said)
        elif asked:
            self._view.clear_message()
        self.settled.emit()

    # ---- edits ---------------------------------------------------------------------------------------------------

    def set_target(self, sparsity: float) -> None:
        """Give every selected cell this target."""
        self.paint(self._cells, sparsity)

    def paint(self, cells: frozenset[Cell], sparsity: float) -> None:
        """Give the given cells this target, whatever is selected."""
        self._edit(
            dict.fromkeys(cells, sparsity),
            lambda cells: tr("set {cells} to {target}", cells=cells, target=percent(sparsity)),
        )

    def step(self, points: int) -> None:
        """Change every selected cell by percentage points."""
        plan = self._workspace.plan
        if plan is not None:
            values = edits.stepped(plan, self._cells, points)
            self._edit(
                values, lambda cells: tr("change {cells} by {points} points", cells=cells, points=f"{points:+d}")
            )

    def shift(self, cells: frozenset[Cell], points: float) -> None:
        """Change cells by percentage points from where they were when the gesture began."""
        plan = self._history.start.plan
        if plan is not None:
            values = edits.stepped(plan, cells, points)
            self._edit(
                values, lambda cells: tr("move {cells} by {points} points", cells=cells, points=f"{points:+.1f}")
            )

    def type_target(self, text: str) -> None:
        """A percentage was typed for the selection."""
        try:
            self.set_target(edits.parse_percent(text))
        except WinaError as error:
            self._view.show_error(str(error))

    def cut(self) -> None:
        """What is selected was copied and is to be dense."""
        self._edit(dict.fromkeys(self._cells, 0.0), lambda cells: tr("cut {cells}", cells=cells))

    def clear_targets(self) -> None:
        """The selected cells drop nothing."""
        self._edit(dict.fromkeys(self._cells, 0.0), lambda cells: tr("clear {cells}", cells=cells))

    def paste(self, text: str, selection: Selection) -> None:
        """Put a block of the clipboard's targets where the selection is, as one step."""
        plan = self._workspace.plan
        if plan is None:
            return
        try:
            block = paste(text, selection, plan.layout.projections)
        except WinaError as error:
            self._view.show_error(str(error))
            return
        self._edit(block.values, lambda cells: tr("paste {cells}", cells=cells))
        if block.remark and not block.values.keys() <= self.locked:
            self._view.show_notice(block.remark)

    def set_uniform(self, sparsity: float) -> None:
        """The same target everywhere."""
        plan = self._workspace.plan
        if plan is not None:
            uniform = SparsityPlan.uniform(plan.layout, sparsity)
            self.take_over(uniform, tr("uniform plan of {target}", target=percent(sparsity)))

    def take_over(self, found: SparsityPlan, text: str) -> None:
        """Replace the plan as one step of undo, but for locked cells; one for another layout is refused.

        A budget that is kept is the new plan's from then on.
        """
        plan, kept = self._workspace.plan, self._choices.constraints
        if plan is None:
            self._view.show_error(tr("A plan is for a model's layers, and no model is open; open one first."))
            return
        try:
            found.for_layout(plan.layout)
        except WinaError as error:
            self._view.show_error(str(error))
            return
        if kept.budget is not None:
            kept = replace(kept, budget=found.budget)
        after = constraints.replaced(plan, found, kept)
        self._history.change(text, plan=after, constraints=kept)
        everywhere = frozenset((row, column) for row, cells in enumerate(plan.sparsity) for column in range(len(cells)))
        said = constraints.remark(after, everywhere, kept)
        if said or after is not found:
            self._view.show_notice(said or constraints.kept_remark(len(self.locked)))
        else:
            self._view.clear_message()

    # ---- what edits leave alone, and the method ------------------------------------------------------------------

    def toggle_locks(self) -> None:
        """Lock what is selected; if all of it is locked, unlock it."""
        if not self._cells:
            return
        cells = tr("{n} cells", "{n} cell", len(self._cells))
        if self._cells <= self.locked:
            text, locked = tr("unlock {cells}", cells=cells), self.locked - self._cells
        else:
            text, locked = tr("lock {cells}", cells=cells), self.locked | self._cells
        self._history.change(text, constraints=replace(self._choices.constraints, locked=locked))

    def unlock_all(self) -> None:
        """No cell is locked any more."""
        self._history.change(tr("unlock all cells"), constraints=replace(self._choices.constraints, locked=frozenset()))

    def keep_budget(self, on: bool) -> None:
        """Whether the plan's present budget is kept from now on."""
        plan = self._workspace.plan
        if plan is None:
            return
        budget = plan.budget if on else None
        text = tr("keep the budget of {budget}", budget=percent(plan.budget)) if on else tr("stop keeping the budget")
        self._history.change(text, constraints=replace(self._choices.constraints, budget=budget))

    def set_method(self, method: MethodSpec) -> None:
        """Choose the gate rule that is measured, predicted and calibrated."""
        self._history.change(tr("choose {method}", method=method.label), method=method)

    # ---- within --------------------------------------------------------------------------------------------------

    def _edit(self, values: Mapping[Cell, float], text: Callable[[str], str]) -> None:
        """New targets, together with those of the same gesture; each position of a drag starts from the same plan.

        `text` says what is done to "3 cells".
        """
        if self._workspace.plan is None or not values:
            return
        alone = not self.in_gesture
        if alone:
            self.begin_gesture()
        self._edits |= values
        start = self._history.start
        assert start.plan is not None  # there is a plan to edit
        plan = constraints.edited(start.plan, self._edits, start.constraints)
        cells = tr("{n} cells", "{n} cell", len(self._edits.keys() - start.constraints.locked))
        self._history.change(text(cells), plan=plan)
        if alone:
            self.end_gesture()

    def _model_changed(self) -> None:
        """Another model has cells of its own; the same one, opened again, has the plan that it had."""
        plan, summary = self._workspace.plan, self._workspace.summary
        fits = plan is not None and summary is not None and plan.layout == summary.layout
        if not fits:
            self._cells = frozenset()
            self._choices.constrain(constraints.Constraints())
        self._edits = {}
        self._history.clear()

    def _show_constraints(self) -> None:
        self._view.show_kept_budget(self.kept_budget)
        self._show_locks()

    def _show_locks(self) -> None:
        self._view.show_locks(self.locked, bool(self._cells) and self._cells <= self.locked)
