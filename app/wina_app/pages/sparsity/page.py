"""The Sparsity page: how much each projection of each decoder layer drops, edited on a heatmap."""

from collections.abc import Callable, Sequence

import numpy as np
from PySide6.QtCore import Qt, Signal, SignalInstance
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPushButton,
    QSplitter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from wina_app.heatmap.editable_heatmap import EditableHeatmap
from wina_app.jobs.job_list import JobEntry
from wina_app.pages.sparsity.allocation_progress import AllocationStrip
from wina_app.pages.sparsity.controller import SparsityController
from wina_app.pages.sparsity.depth_profile import SparsityProfile
from wina_app.pages.sparsity.plan_commands import PlanCommands
from wina_app.pages.sparsity.plan_library import Others, PlanLibrary
from wina_app.pages.sparsity.plan_menu import PlanMenu
from wina_app.pages.sparsity.plan_name_bar import PlanNameBar
from wina_app.pages.sparsity.plan_summary import PlanFigures
from wina_app.pages.sparsity.summary_bar import SparsityFigures
from wina_app.pages.sparsity.target_editor import SparsityEditor
from wina_app.pages.sparsity.toolbar import SparsityToolbar
from wina_app.plots.colour_bar import ColourBar
from wina_app.plots.export import offer_export
from wina_app.services.store_thread import StoreThread
from wina_app.services.workspace import Workspace
from wina_app.shared.colour_scales import MAP_KEYS, MapKey, map_texts, scale_for
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page
from wina_app.widgets.controls import text_label
from wina_app.widgets.help_button import HelpMark
from wina_core.specs import MethodSpec
from wina_core.specs.plans import Cell

_ALWAYS_TOLD: tuple[MapKey, ...] = ("target", "measured", "predicted")
"""Of a cell, also where they are not known."""
_NO_MODEL = tr("Open a model first")
_CALIBRATE = tr(
    "Measure thresholds, output error and kept energy of every projection at 20 sparsities, and how orthogonal and "
    "how unequal its columns are, in the background"
)
_MEASURE_KL = tr(
    "Measure the KL divergence from dense that every cell causes alone at 8 sparsities, in the background: about four "
    "forward passes of 8,192 tokens for every cell, after which allocating by curves takes no time at any budget"
)


class SparsityPage(Page):
    """Shows the plan and emits edits to its controller."""

    calibration_requested = Signal(object)
    """CalibrateJob."""
    allocation_requested = Signal(object, float)
    """AllocatorSpec and the budget, a fraction."""
    divergences_requested = Signal()
    """To measure KL curves, whatever the plan."""
    cancel_requested = Signal()
    """Of the allocation that runs."""

    def __init__(self, workspace: Workspace, store: StoreThread) -> None:
        super().__init__("sparsity", tr("Sparsity"))
        self._workspace = workspace
        self._projections: tuple[str, ...] = ()
        self.toolbar = SparsityToolbar()
        self.heatmap = EditableHeatmap(tr("Sparsity plan, layers by projections"))
        self.heatmap.tooltip = self._cell_text
        self.colour_bar = ColourBar()
        self.profile = SparsityProfile()
        self.editor = SparsityEditor()
        self.figures = SparsityFigures()
        self.allocation = AllocationStrip()
        self.plan_name = PlanNameBar()
        self.plan_menu = PlanMenu()
        self._readout = text_label("", "muted")
        self.calibrate = QPushButton(tr("Calibrate"))
        self.calibrate.setToolTip(_CALIBRATE)
        self.calibrate.setAccessibleName(tr("Calibrate error curves"))
        self.measure_kl = QPushButton(tr("Measure KL"))
        self.measure_kl.setToolTip(_MEASURE_KL)
        self.measure_kl.setAccessibleName(tr("Measure KL curves"))
        self.set_content(self._arrange())
        self.controller = SparsityController(workspace, store, self)
        self.editing = self.controller.editing
        self.undo_stack = self.editing.undo_stack
        self._add_actions()
        self.library = PlanLibrary(workspace, store, self, self.controller)
        self._add_commands()
        self._plans = PlanCommands(self, self.library, self.controller, self.toolbar, self.plan_menu, self.plan_name)
        self._connect()
        self.library.refresh()

    def _arrange(self) -> QWidget:
        left = QWidget()
        under_map = QVBoxLayout(left)
        under_map.setContentsMargins(0, 0, GRID, 0)
        under_map.setSpacing(GRID)
        under_map.addWidget(self.heatmap, 1)
        under_map.addWidget(self.colour_bar)
        right = QWidget()
        under_profile = QVBoxLayout(right)
        under_profile.setContentsMargins(GRID, 0, 0, 0)
        under_profile.addWidget(self.profile, 1)
        under_profile.addWidget(self._readout)
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.addWidget(left)
        splitter.addWidget(right)
        splitter.setStretchFactor(0, 1)
        splitter.setStretchFactor(1, 1)
        splitter.setSizes([55 * GRID, 45 * GRID])
        splitter.setChildrenCollapsible(False)
        figures = QHBoxLayout()
        figures.setSpacing(GRID)
        figures.addWidget(self.figures, 1)
        figures.addWidget(self.measure_kl)
        figures.addWidget(self.calibrate)
        figures.addWidget(HelpMark("Calibration"))
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        column.setSpacing(GRID)
        column.addWidget(self.plan_name)
        column.addWidget(self.toolbar)
        column.addWidget(self.allocation)
        column.addWidget(splitter, 1)
        column.addWidget(self.editor)
        column.addLayout(figures)
        return content

    def _add_actions(self) -> None:
        stack = self.undo_stack
        self.plan_buttons: dict[str, QToolButton] = {
            tr("Undo"): _StepButton(tr("Undo"), stack.undo, stack.canUndoChanged, stack.undoTextChanged),
            tr("Redo"): _StepButton(tr("Redo"), stack.redo, stack.canRedoChanged, stack.redoTextChanged),
        }
        for button in self.plan_buttons.values():
            self.header_actions.addWidget(button)
        self.header_actions.addWidget(self.plan_menu)

    def _add_commands(self) -> None:
        heatmap, editing = self.heatmap, self.editing
        self.add_command(tr("Keep the budget"), self.editor.keep.click, "Ctrl+Shift+B")
        self.add_command(tr("Brush"), self.editor.brush.click, "Ctrl+Shift+D")
        self.add_command(tr("Lock or unlock the selected cells"), editing.toggle_locks, "Ctrl+Shift+L")
        self.add_command(tr("Unlock all cells"), editing.unlock_all, "Ctrl+Alt+L")
        self.add_command(tr("Calibrate"), self.calibrate.click, "F6", _CALIBRATE)
        self.add_command(tr("Measure KL curves"), self.measure_kl.click, "F7", _MEASURE_KL)
        self.add_command(
            tr("Allocate"), self.toolbar.allocate.click, "F8", tr("Spread the budget as chosen in the toolbar")
        )
        self.add_command(tr("Cancel the allocator"), self.cancel_requested.emit, "Shift+F8")
        self.add_command(tr("Copy the read-outs"), self.figures.copy, "Ctrl+Alt+R")
        self.add_command(tr("Select all cells"), lambda: heatmap.set_selection(heatmap.selection.all()), "Ctrl+Shift+A")

    def _connect(self) -> None:
        offer_export(self, self.heatmap, tr("sparsity"), "Ctrl+P")
        offer_export(self, self.profile, tr("profile"), "Ctrl+Shift+P")
        control, editing, heatmap, editor, profile = (
            self.controller, self.editing, self.heatmap, self.editor, self.profile,
        )  # fmt: skip
        heatmap.selection_changed.connect(lambda: editing.select(heatmap.selection.cells))
        heatmap.text_entered.connect(editing.type_target)
        heatmap.stepped.connect(editing.step)
        heatmap.cleared.connect(editing.clear_targets)
        heatmap.cut.connect(editing.cut)
        heatmap.pasted.connect(lambda text: editing.paste(text, heatmap.selection))
        heatmap.painted.connect(lambda cells: editing.paint(cells, editor.target))
        profile.dragged.connect(editing.shift)
        for source in (heatmap, editor):
            source.lock_toggled.connect(editing.toggle_locks)
        for began, ended in (
            (heatmap.stroke_began, heatmap.stroke_ended),
            (editor.gesture_began, editor.gesture_ended),
            (profile.drag_began, profile.drag_ended),
        ):
            began.connect(editing.begin_gesture)
            ended.connect(editing.end_gesture)
        editor.target_chosen.connect(self._target_chosen)
        editor.brush_toggled.connect(self._toggle_brush)
        editor.keep_toggled.connect(editing.keep_budget)
        self.toolbar.method_chosen.connect(editing.set_method)
        self.toolbar.map_chosen.connect(control.show)
        self.toolbar.allocation_chosen.connect(self.allocation_requested)
        self.allocation.cancel_requested.connect(self.cancel_requested)
        self.measure_kl.clicked.connect(self.divergences_requested)
        self.profile.readout_changed.connect(self._readout.setText)
        self.calibrate.clicked.connect(control.calibrate)
        control.calibration_requested.connect(self.calibration_requested)
        self.primary_triggered.connect(lambda: self.crumb_clicked.emit("evaluate"))
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("model"))

    # ---- what the controller asks for ----------------------------------------------------------------------------

    def show_table(self, layers: Sequence[str], projections: Sequence[str]) -> None:
        """Name the rows and columns of the heatmap."""
        self._projections = tuple(projections)
        self.heatmap.set_table(layers, projections)
        self.show_content()
        self.set_primary(tr("Evaluate plan"))

    def show_map(self, key: MapKey, values: np.ndarray, remark: str) -> None:
        """Show a table in heatmap, colour bar and profile."""
        scale = scale_for(key, values, self._workspace.method.selection)
        self.toolbar.show_map_key(key)
        self.heatmap.set_values(values, scale)
        self.colour_bar.set_scale(scale)
        self.profile.editable = key == "target"
        self.profile.show_table(self._projections, values, scale)
        self.heatmap.set_remark(remark)

    def show_figures(self, figures: PlanFigures, other: PlanFigures | None) -> None:
        """Show the read-outs, and beside them how they differ from those of another plan."""
        self.figures.show_figures(figures, other)

    def show_others(self, others: Others) -> None:
        """Offer the plans beside this one."""
        self._plans.show_others(others)

    def show_targets(self, span: tuple[float, float] | None) -> None:
        """Show the lowest and highest target of the selection in slider and spin box."""
        if not self.editor.brush.isChecked():
            self.editor.show_targets(self._named(self.heatmap.selection.cells), span)

    def show_locks(self, locked: frozenset[Cell], selected_are_locked: bool) -> None:
        """Mark the locked cells."""
        self.heatmap.set_locked(locked)
        self.editor.show_locked(selected_are_locked, possible=bool(self.heatmap.selection.cells))

    def show_kept_budget(self, budget: float | None) -> None:
        """Show which budget is kept, if one is."""
        self.editor.show_kept(budget)

    def show_method(self, method: MethodSpec) -> None:
        """Show the gate rule."""
        self.toolbar.show_method(method)

    def show_context(self) -> None:
        """Follow the breadcrumb; without a model say what this page is for."""
        self.set_breadcrumb(self._workspace.breadcrumb())
        if self._workspace.plan is None and not self.is_empty:
            self.set_primary(tr("Evaluate plan"), enabled=False, reason=_NO_MODEL)
            self.show_empty(
                tr("No model is open"),
                tr(
                    "This page sets how much of each projection's input is dropped, layer by layer, on a heatmap that "
                    "you edit directly. Open a model to start with a uniform plan."
                ),
                tr("Open a model"),
                wants_model=True,
            )

    def show_calibrating(self, running: bool) -> None:
        """While a calibration is under way another cannot be asked for."""
        self.calibrate.setEnabled(not running)
        self.calibrate.setText(tr("Calibrating…") if running else tr("Calibrate"))
        self.calibrate.setToolTip(tr("A calibration is under way; see Jobs") if running else _CALIBRATE)

    def show_allocating(self, running: bool) -> None:
        """While an allocator is at work it can only be cancelled."""
        self.toolbar.show_allocating(running)
        self.measure_kl.setEnabled(not running)
        self.measure_kl.setToolTip(tr("An allocator is at work; its progress is above") if running else _MEASURE_KL)

    def show_allocation_progress(self, entry: JobEntry | None) -> None:
        """How far the allocator is; None when none runs."""
        self.allocation.show_progress(entry)

    def show_allocation(self, text: str, details: str) -> None:
        """Say how the current plan was found; empty when it was not allocated here."""
        self.allocation.show_found(text, details)

    # ---- what the user does --------------------------------------------------------------------------------------

    def _target_chosen(self, target: float) -> None:
        if not self.editor.brush.isChecked():
            self.editing.set_target(target)

    def _toggle_brush(self, on: bool) -> None:
        self.heatmap.brush = on
        self.heatmap.viewport().setCursor(Qt.CursorShape.CrossCursor if on else Qt.CursorShape.ArrowCursor)
        self.heatmap.set_selection(self.heatmap.selection.none())
        if on:
            self.editor.show_targets(tr("brush paints"), (self.editor.target, self.editor.target))
        else:
            self.show_targets(None)

    def _named(self, cells: frozenset[Cell]) -> str:
        if not cells:
            return tr("nothing selected")
        if len(cells) > 1:
            layers = len({layer for layer, _ in cells})
            return tr(
                "{cells} in {layers}",
                cells=tr("{n} cells", "{n} cell", len(cells)),
                layers=tr("{n} layers", "{n} layer", layers),
            )
        ((layer, column),) = cells
        return tr("layer {layer} · {projection}", layer=layer, projection=self._projections[column])

    def _cell_text(self, cell: Cell) -> str:
        layer, column = cell
        lines = [tr("layer {layer} · {projection}", layer=layer, projection=self._projections[column])]
        for key in MAP_KEYS:
            value = self.controller.value(key, cell)
            scale = scale_for(key, np.array([value]), self._workspace.method.selection)
            known = not np.isnan(value)
            if known or key in _ALWAYS_TOLD:
                text = f"{scale.text(value)} {scale.unit}".strip() if known else tr("not known yet")
                lines.append(f"{map_texts(key).name.lower()}: {text}")
        if cell in self.editing.locked:
            lines.append(tr("locked: no edit changes it"))
        return "\n".join(lines)


class _StepButton(QToolButton):
    """Undo or redo; its tooltip names the step. The stack's own action for that would have it laid out anew, and the
    page with it, whenever a drag goes on and thereby renames the step."""

    def __init__(self, name: str, do: Callable[[], None], possible: SignalInstance, step: SignalInstance) -> None:
        super().__init__()
        self.setText(name)
        self.setAccessibleName(name)
        self.setEnabled(False)
        self._name_step("")
        self.clicked.connect(do)
        possible.connect(self.setEnabled)
        step.connect(self._name_step)

    def _name_step(self, step: str) -> None:
        self.setToolTip(f"{self.text()} {step}".strip())
