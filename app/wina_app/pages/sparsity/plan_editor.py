"""Editor of the workspace's plan with undo, locked cells and a kept budget."""

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
from wina_app.shared.message_view import MessageView
from wina_app.style.number_format import percent
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.plans import Cell, SparsityPlan


class EditingView(MessageView, Protocol):
    """The page as the editor sees it."""

    def show_targets(self, span: tuple[float, float] | None) -> None:
        """Show the selection's lowest and highest target; None for an empty selection."""

    def show_locks(self, locked: frozenset[Cell], selected_are_locked: bool) -> None:
        """Mark the locked cells."""

    def show_kept_budget(self, budget: float | None) -> None:
        """Show the kept budget, if any."""


class SparsityEditing(QObject):
    """Editor of the plan. Cells are (layer, index into the layout's projections)."""

    settled = Signal()
    """A gesture ended: costly numbers of the plan can be read."""

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
        """Return the stack of undo steps."""
        return self._history.stack

    @property
    def in_gesture(self) -> bool:
        """Return whether a gesture, such as a drag, is under way."""
        return self._history.in_gesture

    @property
    def locked(self) -> frozenset[Cell]:
        """Return the locked cells."""
        return self._choices.constraints.locked

    @property
    def kept_budget(self) -> float | None:
        """Return the kept budget, or None."""
        return self._choices.constraints.budget

    def select(self, cells: frozenset[Cell]) -> None:
        """Select the cells for the next edits."""
        self._cells = cells
        self.show_selection()

    def show_selection(self) -> None:
        """Show targets and locks of the selected cells."""
        plan = self._workspace.plan
        if plan is not None:
            self._view.show_targets(edits.target_span(plan, self._cells))
            self._show_locks()

    def begin_gesture(self) -> None:
        """Begin one undo step; `end_gesture` ends it."""
        self._edits = {}
        self._history.begin_gesture()

    def end_gesture(self) -> None:
        """End the undo step, and say what it could not do."""
        plan, asked, self._edits = self._workspace.plan, frozenset(self._edits), {}
        self._history.end_gesture()
        said = constraints.remark(plan, asked, self._choices.constraints) if plan is not None and asked else ""
        if said:
            self._view.show_notice(said)
        elif asked:
            self._view.clear_message()
        self.settled.emit()

    def set_target(self, sparsity: float) -> None:
        """Set the target (fraction) of the selected cells."""
        self.paint(self._cells, sparsity)

    def paint(self, cells: frozenset[Cell], sparsity: float) -> None:
        """Set the target (fraction) of these cells."""
        self._edit(
            dict.fromkeys(cells, sparsity),
            lambda cells: tr("set {cells} to {target}", cells=cells, target=percent(sparsity)),
        )

    def step(self, points: int) -> None:
        """Change the selected cells by percentage points."""
        plan = self._workspace.plan
        if plan is not None:
            values = edits.stepped(plan, self._cells, points)
            self._edit(
                values, lambda cells: tr("change {cells} by {points} points", cells=cells, points=f"{points:+d}")
            )

    def shift(self, cells: frozenset[Cell], points: float) -> None:
        """Change cells by percentage points from their targets at the gesture's begin."""
        plan = self._history.start.plan
        if plan is not None:
            values = edits.stepped(plan, cells, points)
            self._edit(
                values, lambda cells: tr("move {cells} by {points} points", cells=cells, points=f"{points:+.1f}")
            )

    def type_target(self, text: str) -> None:
        """Set the target of the selected cells to a typed percentage."""
        try:
            self.set_target(edits.parse_percent(text))
        except WinaError as error:
            self._view.show_error(str(error))

    def cut(self) -> None:
        """Make the selected cells dense, after copying them."""
        self._edit(dict.fromkeys(self._cells, 0.0), lambda cells: tr("cut {cells}", cells=cells))

    def clear_targets(self) -> None:
        """Make the selected cells dense."""
        self._edit(dict.fromkeys(self._cells, 0.0), lambda cells: tr("clear {cells}", cells=cells))

    def paste(self, text: str, selection: Selection) -> None:
        """Paste a block of targets at the selection, as one step."""
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
        """Set the same target (fraction) everywhere."""
        plan = self._workspace.plan
        if plan is not None:
            uniform = SparsityPlan.uniform(plan.layout, sparsity)
            self.take_over(uniform, tr("uniform plan of {target}", target=percent(sparsity)))

    def take_over(self, found: SparsityPlan, text: str) -> None:
        """Replace the plan except locked cells, as one undo step; refuse another layout's.

        The new plan's budget is kept if one was.
        """
        plan, kept = self._workspace.plan, self._choices.constraints
        if plan is None:
            self._view.show_error(tr("No model is open; a plan belongs to a model's layers, so open one first."))
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

    def toggle_locks(self) -> None:
        """Lock the selected cells, or unlock them if all are locked."""
        if not self._cells:
            return
        cells = tr("{n} cells", "{n} cell", len(self._cells))
        if self._cells <= self.locked:
            text, locked = tr("unlock {cells}", cells=cells), self.locked - self._cells
        else:
            text, locked = tr("lock {cells}", cells=cells), self.locked | self._cells
        self._history.change(text, constraints=replace(self._choices.constraints, locked=locked))

    def unlock_all(self) -> None:
        """Unlock all cells."""
        self._history.change(tr("unlock all cells"), constraints=replace(self._choices.constraints, locked=frozenset()))

    def keep_budget(self, on: bool) -> None:
        """Keep the plan's current budget in later edits, or stop keeping it."""
        plan = self._workspace.plan
        if plan is None:
            return
        budget = plan.budget if on else None
        text = tr("keep the budget of {budget}", budget=percent(plan.budget)) if on else tr("stop keeping the budget")
        self._history.change(text, constraints=replace(self._choices.constraints, budget=budget))

    def set_method(self, method: MethodSpec) -> None:
        """Choose the method."""
        self._history.change(tr("choose {method}", method=method.label), method=method)

    def _edit(self, values: Mapping[Cell, float], text: Callable[[str], str]) -> None:
        """Set targets on top of those of the same gesture, from the plan at its begin.

        `text` describes the edit of "3 cells".
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
        """Forget selection and constraints, unless the model has the plan's layout."""
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
