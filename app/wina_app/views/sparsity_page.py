"""The Sparsity page: how much each projection of each decoder layer drops, edited on a heatmap."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QPushButton,
    QSplitter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from wina_app.controllers.sparsity_controller import MapKey, PlanFigures, SparsityController
from wina_app.plain_text import plain_tip
from wina_app.store_thread import StoreThread
from wina_app.theme import GRID
from wina_app.views.colour_bar import ColourBar
from wina_app.views.colour_maps import percent, three_digits
from wina_app.views.controls import ElidedLabel, text_label
from wina_app.views.heatmap import Heatmap
from wina_app.views.page import Page
from wina_app.views.plot_export import offer_export
from wina_app.views.sparsity_editor import SparsityEditor
from wina_app.views.sparsity_profile import SparsityProfile
from wina_app.views.sparsity_scales import scale_for
from wina_app.views.sparsity_toolbar import SparsityToolbar
from wina_app.workspace import Workspace
from wina_core.plan import Cell
from wina_core.specs import MethodSpec

_NO_MODEL = "Open a model first"
_CALIBRATE = "Measure the output error of every projection at 20 sparsities, in the background"
_PLAN_FORMATS = "Sparsity plan (*.json)"


class SparsityPage(Page):
    """Shows the plan and emits edits to its controller."""

    calibration_requested = Signal(object)
    """CalibrateJob."""
    allocation_requested = Signal(object, float)
    """AllocatorSpec and the budget, a fraction."""
    cancel_requested = Signal()
    """Of the allocation that runs."""

    def __init__(self, workspace: Workspace, store: StoreThread) -> None:
        super().__init__("sparsity", "Sparsity")
        self._workspace = workspace
        self._projections: tuple[str, ...] = ()
        self.toolbar = SparsityToolbar()
        self.heatmap = Heatmap("Sparsity plan, layers by projections", editable=True)
        self.heatmap.tooltip = self._cell_text
        self.colour_bar = ColourBar()
        self.profile = SparsityProfile()
        self.editor = SparsityEditor()
        self.figures = text_label("")
        self.figures.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.allocation = ElidedLabel("muted")
        self.allocation.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._readout = text_label("", "muted")
        self.calibrate = QPushButton("Calibrate")
        self.calibrate.setToolTip(_CALIBRATE)
        self.calibrate.setAccessibleName("Calibrate error curves")
        self._open = QAction("Open a plan from a file", self, triggered=self._open_plan)
        self._save = QAction("Save the plan as a file", self, triggered=self._save_plan)
        self._enable_files(False)
        self.set_content(self._arrange())
        self.controller = SparsityController(workspace, store, self)
        self._add_actions()
        self._connect()

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
        figures.addWidget(self.figures)
        figures.addWidget(self.allocation, 1)
        figures.addWidget(self.calibrate)
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        column.setSpacing(GRID)
        column.addWidget(self.toolbar)
        column.addWidget(splitter, 1)
        column.addWidget(self.editor)
        column.addLayout(figures)
        return content

    def _add_actions(self) -> None:
        stack = self.controller.undo_stack
        undo, redo = stack.createUndoAction(self), stack.createRedoAction(self)
        undo.setShortcut(QKeySequence(QKeySequence.StandardKey.Undo))
        redo.setShortcuts([QKeySequence("Ctrl+Shift+Z"), QKeySequence("Ctrl+Y")])
        self.plan_buttons: dict[str, QToolButton] = {}
        for name, action in (("Undo", undo), ("Redo", redo), ("Open plan", self._open), ("Save plan", self._save)):
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            action.setIconText(name)  # what the button says; the text, in its tooltip, names the step
            self.addAction(action)
            button = QToolButton()
            button.setDefaultAction(action)
            button.setAccessibleName(name)
            self.plan_buttons[name] = button
            self.header_actions.addWidget(button)

    def _connect(self) -> None:
        offer_export(self, self.heatmap, "sparsity")
        offer_export(self, self.profile, "profile")
        control, heatmap, editor = self.controller, self.heatmap, self.editor
        heatmap.selection_changed.connect(lambda: control.select(heatmap.selection.cells))
        heatmap.text_entered.connect(control.type_target)
        heatmap.stepped.connect(control.step)
        heatmap.stroke_began.connect(control.begin_gesture)
        heatmap.stroke_ended.connect(control.end_gesture)
        heatmap.painted.connect(lambda cells: control.paint(cells, editor.target))
        editor.gesture_began.connect(control.begin_gesture)
        editor.gesture_ended.connect(control.end_gesture)
        editor.target_chosen.connect(self._target_chosen)
        editor.brush_toggled.connect(self._toggle_brush)
        self.toolbar.method_chosen.connect(control.set_method)
        self.toolbar.map_chosen.connect(control.show)
        self.toolbar.allocation_chosen.connect(self.allocation_requested)
        self.toolbar.cancel_requested.connect(self.cancel_requested)
        self.profile.readout_changed.connect(self._readout.setText)
        self.calibrate.clicked.connect(control.calibrate)
        control.calibration_requested.connect(self.calibration_requested)
        self.primary_triggered.connect(lambda: self.crumb_clicked.emit("evaluate"))
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("model"))

    def _enable_files(self, enabled: bool) -> None:
        for action in (self._open, self._save):
            action.setEnabled(enabled)
            action.setToolTip(action.text() if enabled else _NO_MODEL)

    # ---- what the controller asks for ----------------------------------------------------------------------------

    def show_table(self, layers: Sequence[str], projections: Sequence[str]) -> None:
        """Name the rows and columns of the heatmap."""
        self._projections = tuple(projections)
        self.heatmap.set_table(layers, projections)
        self.show_content()
        self.set_primary("Evaluate plan")
        self._enable_files(True)

    def show_map(self, key: MapKey, values: np.ndarray, remark: str) -> None:
        """Show a table in heatmap, colour bar and profile."""
        scale = scale_for(key, values)
        self.toolbar.show_map_key(key)
        self.heatmap.set_values(values, scale)
        self.colour_bar.set_scale(scale)
        self.profile.show_table(self._projections, values, scale)
        self.heatmap.set_remark(remark)

    def show_figures(self, figures: PlanFigures) -> None:
        """Show the read-outs in one line."""
        parts = [f"<b>Budget {100 * figures.budget:.1f} %</b>"]
        if figures.measured is not None:
            parts.append(f"measured {100 * figures.measured:.1f} %")
        if figures.predicted is not None:
            parts.append(f"mean predicted error {three_digits(figures.predicted)}")
        self.figures.setText("&nbsp;&nbsp;\N{MIDDLE DOT}&nbsp;&nbsp;".join(parts))

    def show_targets(self, span: tuple[float, float] | None) -> None:
        """Show the lowest and highest target of the selection in slider and spin box."""
        if not self.editor.brush.isChecked():
            self.editor.show_targets(self._named(self.heatmap.selection.cells), span)

    def show_method(self, method: MethodSpec) -> None:
        """Show the gate rule."""
        self.toolbar.show_method(method)

    def show_context(self) -> None:
        """Follow the breadcrumb; without a model say what this page is for."""
        self.set_breadcrumb(self._workspace.breadcrumb())
        if self._workspace.plan is None and not self.is_empty:
            self.set_primary("Evaluate plan", enabled=False, reason=_NO_MODEL)
            self.show_empty(
                "No model is open",
                "This page sets how much of each projection's input is dropped, layer by layer, on a heatmap that you "
                "edit directly. Open a model to start with a uniform plan.",
                "Open a model",
            )

    def show_calibrating(self, running: bool) -> None:
        """While a calibration is under way another cannot be asked for."""
        self.calibrate.setEnabled(not running)
        self.calibrate.setText("Calibrating\N{HORIZONTAL ELLIPSIS}" if running else "Calibrate")
        self.calibrate.setToolTip("A calibration is under way; see Jobs" if running else _CALIBRATE)

    def show_allocating(self, running: bool) -> None:
        """While an allocation runs it can only be cancelled."""
        self.toolbar.show_allocating(running)

    def show_allocation(self, text: str, details: str) -> None:
        """Say how the current plan was found; empty when it was not allocated here."""
        self.allocation.setText(text)
        self.allocation.setToolTip(plain_tip("\n".join(filter(None, (text, details)))))

    # ---- what the user does --------------------------------------------------------------------------------------

    def _target_chosen(self, target: float) -> None:
        if not self.editor.brush.isChecked():
            self.controller.set_target(target)

    def _toggle_brush(self, on: bool) -> None:
        self.heatmap.brush = on
        self.heatmap.viewport().setCursor(Qt.CursorShape.CrossCursor if on else Qt.CursorShape.ArrowCursor)
        self.heatmap.set_selection(self.heatmap.selection.none())
        if on:
            self.editor.show_targets("brush paints", (self.editor.target, self.editor.target))
        else:
            self.show_targets(None)

    def _open_plan(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self, "Open sparsity plan", "", _PLAN_FORMATS)
        if name:
            self.controller.open_plan(Path(name))

    def _save_plan(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self, "Save sparsity plan", "plan.json", _PLAN_FORMATS)
        if name:
            self.controller.save_plan(Path(name))

    def _named(self, cells: frozenset[Cell]) -> str:
        if not cells:
            return "nothing selected"
        if len(cells) > 1:
            layers = len({layer for layer, _ in cells})
            return f"{len(cells)} cells in {layers} layer{'s' if layers > 1 else ''}"
        ((layer, column),) = cells
        return f"layer {layer} \N{MIDDLE DOT} {self._projections[column]}"

    def _cell_text(self, cell: Cell) -> str:
        layer, column = cell
        lines = [f"layer {layer} \N{MIDDLE DOT} {self._projections[column]}"]
        for key, title, text, unit in (
            ("target", "target", percent, " %"),
            ("measured", "measured", percent, " %"),
            ("predicted", "predicted error", three_digits, ""),
        ):
            value = self.controller.value(key, cell)
            lines.append(f"{title}: {'not known yet' if np.isnan(value) else text(value) + unit}")
        return "\n".join(lines)
