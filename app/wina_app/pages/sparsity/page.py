"""View of the Sparsity page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from PySide6.QtCore import Qt, QTimer, Signal, SignalInstance
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QPushButton, QSplitter, QToolButton, QWidget

from wina_app.heatmap.editable_heatmap import EditableHeatmap
from wina_app.heatmap.geometry import RowDetails
from wina_app.heatmap.painter import Notes
from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.sparsity.cell_values import CellValues
from wina_app.pages.sparsity.depth_profile import SparsityProfile
from wina_app.pages.sparsity.plan_maps import PlanFigures
from wina_app.pages.sparsity.summary_bar import SparsityFigures
from wina_app.pages.sparsity.toolbar import SparsityToolbar
from wina_app.pages.sparsity.value_editor import QuantizationBar, ValueEditor
from wina_app.plots.colour_bar import ColourBar
from wina_app.plots.export import offer_export
from wina_app.shared.heatmap_tables import MapKey, scale_for
from wina_app.shared.job_strip import JobStrip
from wina_app.shared.sparse_export import SHORT, SparseExportCommand
from wina_app.style.number_format import plural
from wina_app.style.theme import GRID
from wina_app.widgets.base_page import Page, with_shortcut
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import ElidedLabel, text_label
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip
from wina_core.specs import Selection
from wina_core.specs.plans import Cell

_NO_MODEL = "Open a model first"
_CALIBRATE = (
    "Measure thresholds, output error and kept energy of every projection at 20 sparsities, and how orthogonal and "
    "how unequal its columns are, in the background"
)
_MEASURE_KL = (
    "Measure the KL divergence from dense that every cell causes alone at 8 sparsities, in the background: about four "
    "forward passes of 8,192 tokens for every cell, after which allocating by curves takes no time at any budget"
)


_EXPERTS = "Of the selected layers, or of all: a line for each expert below its layer; E does the same in the heatmap"
_COPY_EXPERTS = (
    "A table of the selected layers' experts, or of all: target, measured sparsity, threshold, share of tokens, and "
    "tokens of the calibration"
)
_NO_EXPERTS = "The open model is no Mixture of Experts"


class SparsityPage(Page):
    """Page to edit a plan on a heatmap. Its widgets emit edits of cells."""

    target_chosen = Signal(float)
    """Target of the selected cells."""
    lock_toggled = Signal()
    """Lock or unlock the selected cells."""
    unlock_requested = Signal()
    """Unlock all cells."""
    experts_copied = Signal()
    """Copy what is known of the selected layers' experts."""

    def __init__(self) -> None:
        super().__init__("sparsity", "Sparsity")
        self._projections: tuple[str, ...] = ()
        self._saved_state: dict[str, object] = {}
        """The last session's state, until a plan is shown."""
        self.toolbar = SparsityToolbar()
        self.heatmap = EditableHeatmap("Plan, layers by projections")
        self.colour_bar = ColourBar()
        self.profile = SparsityProfile()
        self.editor = ValueEditor()
        self.quantization = QuantizationBar()
        self.quantization.hide()
        self.figures = SparsityFigures()
        self.allocation = JobStrip("Progress of the allocator", "Cancel the allocator")
        self.outcome = ElidedLabel("muted")
        self.outcome.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.outcome.hide()
        self.plan_menu = QToolButton()
        self.plan_menu.setText("Plans")
        self.plan_menu.setAccessibleName("Plans: saved, files, compare")
        self.plan_menu.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.export = SparseExportCommand(self, QToolButton(), SHORT)
        self._readout = text_label("", "muted")
        self.calibrate = QPushButton("Calibrate")
        self.calibrate.setToolTip(_CALIBRATE)
        self.calibrate.setAccessibleName("Calibrate error curves")
        self.measure_kl = QPushButton("Measure KL")
        self.measure_kl.setToolTip(_MEASURE_KL)
        self.measure_kl.setAccessibleName("Measure KL curves")
        self.set_content(self._arrange())
        self._add_commands()
        self._connect()

    def view_state(self) -> dict[str, object]:
        """Add the selected cells and whether the budget is kept to what the next start restores."""
        return super().view_state() | {
            "selection": sorted(self.heatmap.selection.cells) if not self.is_empty else [],
            "keep budget": self.editor.keep.isChecked(),
            "experts": sorted(self.heatmap.expanded),
        }

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore the form now, and selection, kept budget and experts once there is a plan."""
        super().restore_view(state)
        self._saved_state = dict(state)

    def _restore_on_plan(self) -> None:
        """Restore the selected cells that the plan has, and the kept budget."""
        state, self._saved_state = self._saved_state, {}
        if state.get("keep budget") is True and not self.editor.keep.isChecked():
            self.editor.keep_toggled.emit(True)
        empty, chosen = self.heatmap.selection.none(), state.get("selection")
        cells = [
            (cell[0], cell[1])
            for cell in (chosen if isinstance(chosen, list) else [])
            if isinstance(cell, list | tuple) and len(cell) == 2 and all(isinstance(index, int) for index in cell)
        ]
        selected = [(row, column) for row, column in cells if 0 <= row < empty.rows and 0 <= column < empty.columns]
        if selected:
            self.heatmap.set_selection(
                replace(empty, anchor=selected[0], cursor=selected[0], earlier=frozenset(selected))
            )
        expanded = state.get("experts")
        self.heatmap.expand(row for row in (expanded if isinstance(expanded, list) else []) if isinstance(row, int))

    def _arrange(self) -> QWidget:
        left = QWidget()
        vbox(left, (self.heatmap, 1), self.colour_bar, margins=(0, 0, GRID, 0))
        right = QWidget()
        vbox(right, (self.profile, 1), self._readout, margins=(GRID, 0, 0, 0), spacing=-1)
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.addWidget(left)
        splitter.addWidget(right)
        splitter.setStretchFactor(0, 1)
        splitter.setStretchFactor(1, 1)
        splitter.setSizes([55 * GRID, 45 * GRID])
        splitter.setChildrenCollapsible(False)
        toolbar = self.toolbar
        self.remembered |= {
            "halves": splitter,
            "allocator": toolbar.allocator,
            "budget": toolbar.budget,
            "bits read": toolbar.joint.read,
            "bits held": toolbar.joint.held,
            "refined": toolbar.joint.refined,
        }
        figures = hbox(None, (self.figures, 1), self.measure_kl, self.calibrate, HelpButton("Calibration"))
        content = QWidget()
        vbox(
            content,
            self.toolbar,
            self.allocation,
            self.outcome,
            self.quantization,
            (splitter, 1),
            self.editor,
            figures,
            margins=(2 * GRID, GRID, 2 * GRID, GRID),
        )
        return content

    def set_undo_stack(self, stack: QUndoStack) -> None:
        """Use this stack for the Edit menu, and show its steps in the header."""
        self.undo_stack = stack
        self.plan_buttons: dict[str, QToolButton] = {
            "Undo": _StepButton("Undo", stack.undo, stack.canUndoChanged, stack.undoTextChanged),
            "Redo": _StepButton("Redo", stack.redo, stack.canRedoChanged, stack.redoTextChanged),
        }
        for button in self.plan_buttons.values():
            self.header_actions.addWidget(button)
        self.header_actions.addWidget(self.plan_menu)
        self.header_actions.addWidget(self.export.button)

    def _add_commands(self) -> None:
        heatmap = self.heatmap
        self.add_command("Keep the budget", self.editor.keep.click, "Ctrl+Shift+B")
        self.add_command("Brush", self.editor.brush.click, "Ctrl+Shift+D")
        lock = self.add_command("Lock or unlock the selected cells", self.lock_toggled.emit, "Ctrl+Shift+L")
        heatmap.addAction(lock)  # to its context menu
        self._expert_commands = (
            self.add_command("Show or hide experts", heatmap.toggle_selected, "Ctrl+Shift+X", _EXPERTS),
            self.add_command("Copy the experts' numbers", self.experts_copied.emit, "Ctrl+Alt+X", _COPY_EXPERTS),
        )
        heatmap.addActions(self._expert_commands)
        self.add_command("Unlock all cells", self.unlock_requested.emit, "Ctrl+Alt+L")
        self.add_command("Calibrate", self.calibrate.click, "F6", _CALIBRATE)
        self.add_command("Measure KL curves", self.measure_kl.click, "F7", _MEASURE_KL)
        self.add_command("Allocate", self.toolbar.allocate.click, "F8", "Allocate the budget as chosen in the toolbar")
        self.add_command("Cancel the allocator", self.allocation.cancel_requested.emit, "Shift+F8")
        self.add_command("Copy the read-outs", self.figures.copy, "Ctrl+Alt+R")
        self.add_command("Select all cells", lambda: heatmap.set_selection(heatmap.selection.all()), "Ctrl+Shift+A")

    def _connect(self) -> None:
        offer_export(self, self.heatmap, "sparsity", "Ctrl+P")
        offer_export(self, self.profile, "profile", "Ctrl+Shift+P")
        self.heatmap.reading_changed.connect(lambda: self.show_targets(None))
        for source in (self.heatmap, self.editor):
            source.lock_toggled.connect(self.lock_toggled)
        self.editor.target_chosen.connect(self._choose_target)
        self.editor.brush_toggled.connect(self._toggle_brush)
        self.toolbar.allocator.currentIndexChanged.connect(self._show_quantizer)
        self.toolbar.allocator.activated.connect(self._begin_with_planes)
        self.profile.readout_changed.connect(self._readout.setText)
        self.primary_triggered.connect(lambda: self.crumb_clicked.emit("evaluate"))
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("model"))

    def show_table(self, layers: Sequence[str], projections: Sequence[str]) -> None:
        """Set the names of rows and columns."""
        self._projections = tuple(projections)
        self.heatmap.set_table(layers, projections)
        if self._saved_state and layers:
            QTimer.singleShot(0, self, self._restore_on_plan)  # once the controller has shown all of the plan
        self.show_content()
        self._enable_plan_commands(True)
        self.set_primary("Evaluate plan")

    def _enable_plan_commands(self, has_plan: bool) -> None:
        self.toolbar.edited.setEnabled(has_plan)
        self.export.show_reason("" if has_plan else _NO_MODEL)

    def show_map(self, key: MapKey, values: np.ndarray, selection: Selection, remark: str, notes: Notes = ()) -> None:
        """Show a table, float64 [layers, projections], or why it has no data; with a second text in each cell."""
        scale = scale_for(key, values, selection)
        self.toolbar.show_map_key(key)
        self._show_quantizer()
        self.heatmap.set_values(values, scale, notes)
        self.colour_bar.set_scale(scale)
        self.profile.editable = key in ("target", "bits")
        self.profile.show_table(self._projections, values, scale)
        self.heatmap.set_remark(remark)

    def show_experts(self, counts: Sequence[int], details: Callable[[int], RowDetails], widest: str) -> None:
        """Set the number of experts of each layer, the maker of a layer's lines, and their widest heading."""
        self.heatmap.set_details(counts, details, widest)
        for action, tip in zip(self._expert_commands, (_EXPERTS, _COPY_EXPERTS), strict=True):
            action.setEnabled(any(counts))
            action.setToolTip(with_shortcut(tip, action.shortcut().toString()) if any(counts) else _NO_EXPERTS)

    def _show_quantizer(self) -> None:
        """Show the quantizer above the map of bits, and where bits are to be allocated."""
        self.quantization.setVisible(self.toolbar.edited.value == "bits" or self.toolbar.is_joint)

    def _begin_with_planes(self) -> None:
        """Choose planes where bits are to be allocated and nothing is quantized yet."""
        if self.toolbar.is_joint and not self.quantization.in_use:
            self.quantization.changed.emit({"quantizer": "planes", "by_energy": True})

    def show_figures(self, figures: PlanFigures, other: PlanFigures | None) -> None:
        self.figures.show_figures(figures, other)
        self.quantization.show_figures(figures)

    def show_values(self, values: CellValues) -> None:
        self.editor.show_values(values)
        if self.editor.brush.isChecked():
            self._show_brush()

    def show_targets(self, span: tuple[float, float] | None) -> None:
        """Show the selection's lowest and highest value; None for an empty selection."""
        if not self.editor.brush.isChecked():
            self.editor.show_targets(self._expert_name() or self._cells_name(self.heatmap.selection.cells), span)

    def show_locks(self, locked: frozenset[Cell], selected_are_locked: bool) -> None:
        self.heatmap.set_locked(locked)
        self.editor.show_locked(selected_are_locked, possible=bool(self.heatmap.selection.cells))

    def show_context(self, breadcrumb: list[tuple[str, str]], *, has_plan: bool) -> None:
        """Show the header, or the empty state without a plan."""
        self.set_breadcrumb(breadcrumb)
        self._enable_plan_commands(has_plan)
        if not has_plan and not self.is_empty:
            self.set_primary("Evaluate plan", enabled=False, reason=_NO_MODEL)
            self.show_empty(
                "No model is open",
                (
                    "This page sets how much of each projection's input is dropped, layer by layer, on a heatmap that "
                    "you edit directly. Open a model to start with a uniform plan."
                ),
                "Open a model",
                wants_model=True,
            )

    def show_calibrating(self, running: bool) -> None:
        """Disable calibrating while a calibration is queued or runs."""
        self.calibrate.setEnabled(not running)
        self.calibrate.setText("Calibrating…" if running else "Calibrate")
        self.calibrate.setToolTip("A calibration is running; see Jobs" if running else _CALIBRATE)

    def show_allocating(self, entry: JobEntry | None) -> None:
        """Show the progress of an allocation; None for none."""
        self.toolbar.show_allocating(entry is not None)
        self.measure_kl.setEnabled(entry is None)
        self.measure_kl.setToolTip("An allocation is running; see above" if entry is not None else _MEASURE_KL)
        self.allocation.show_job(entry)

    def show_outcome(self, text: str, details: str) -> None:
        """Say how the current plan was allocated; empty if it was not."""
        self.outcome.setText(text)
        self.outcome.setToolTip(plain_tip("\n".join(filter(None, (text, details)))))
        self.outcome.setVisible(bool(text))

    def _choose_target(self, target: float) -> None:
        if not self.editor.brush.isChecked():
            self.target_chosen.emit(target)

    def _toggle_brush(self, on: bool) -> None:
        self.heatmap.brush = on
        self.heatmap.viewport().setCursor(Qt.CursorShape.CrossCursor if on else Qt.CursorShape.ArrowCursor)
        # The editor shows the value either of the brush or of the selection.
        self.heatmap.set_selection(self.heatmap.selection.none())
        if on:
            self._show_brush()
        else:
            self.show_targets(None)

    def _show_brush(self) -> None:
        self.editor.show_targets("brush paints", (self.editor.target, self.editor.target))

    def _expert_name(self) -> str:
        """Return the name of the expert that is read, whose target is its layer's; empty for none."""
        reading = self.heatmap.reading
        if reading is None:
            return ""
        return f"expert {reading.line} · read-only, target of layer {reading.row}"

    def _cells_name(self, cells: frozenset[Cell]) -> str:
        if not cells:
            return "nothing selected"
        if len(cells) > 1:
            layers = len({layer for layer, _ in cells})
            return f"{plural(len(cells), 'cells', 'cell')} in {plural(layers, 'layers', 'layer')}"
        ((layer, column),) = cells
        return f"layer {layer} · {self._projections[column]}"


class _StepButton(QToolButton):
    """Undo or redo button whose tooltip names the step. The stack's own action would change the button's size, and lay
    out the page again, at every step of a drag."""

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
