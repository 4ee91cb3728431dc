"""Controller of the Sparsity page: show the workspace's plan and its stored data."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PySide6.QtCore import QObject

from wina_app.heatmap.geometry import Detail
from wina_app.pages.sparsity.experts import ExpertRows
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.pages.sparsity.plan_editor import PlanEditor
from wina_app.pages.sparsity.plan_maps import Counting, PlanFigures, PlanMaps, cell_notes, plan_figures, remark
from wina_app.pages.sparsity.stored_data import PlanSubject, StoredPlanData, read_plan_data
from wina_app.services.store_thread import StoreThread
from wina_app.services.workspace import Workspace
from wina_app.shared.heatmap_tables import MAP_KEYS, MapKey, map_texts, scale_for
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically
from wina_core.specs.plans import Cell, SparsityPlan, read_searched_shares
from wina_core.specs.quantization import PlanPair, load_pair

_ALWAYS_SHOWN: tuple[MapKey, ...] = ("target", "measured", "predicted")
"""Numbers of a cell's tooltip, also where they are unknown."""


class SparsityController(QObject):
    """Presenter of the plan. Cells are (layer, index into the layout's projections)."""

    def __init__(self, workspace: Workspace, store: StoreThread, view: SparsityPage) -> None:
        super().__init__()
        self._workspace, self._store, self._view = workspace, store, view
        self.editing = PlanEditor(workspace, view)
        self._stored = StoredPlanData()
        self._reading_subject: PlanSubject | None = None
        self._outdated = False
        self._key: MapKey = "target"
        self._maps: PlanMaps | None = None
        self._experts: ExpertRows | None = None
        self._other: SparsityPlan | None = None
        self._other_figures: PlanFigures | None = None
        workspace.model_changed.connect(self._context_changed)
        workspace.rotation_changed.connect(self._context_changed)
        workspace.method_changed.connect(self._context_changed)
        workspace.plan_changed.connect(self._plan_changed)
        workspace.quantization_changed.connect(self._quantization_changed)
        workspace.quantization_settled.connect(self._show_context)
        self.editing.bits_changed.connect(self._show_bits)
        store.changed.connect(self._read_stored)
        self.editing.settled.connect(self._read_stored)
        self._context_changed()

    def open_plan(self, path: Path) -> None:
        """Replace the plan by a file's, JSON with bits or without, or R-Sparse's searched shares, as one undo step."""
        current = self._workspace.plan

        def read(_store: object) -> PlanPair:
            if current is not None and path.suffix.lower() == ".npy":
                return PlanPair(plan=read_searched_shares(path, current.layout))
            return load_pair(path)

        self._store.ask(read, lambda pair: self.editing.replace_plan(pair, f"open {path.name}"), self._view.show_error)

    def open_run(self, run: str) -> None:
        """Replace the plan and the bits by those of a stored run, as one undo step."""
        plan = self._workspace.plan
        if plan is None:
            self._view.show_error("No model is open; a plan belongs to a model's layers, so open one first.")
            return
        self._store.ask(
            lambda store: store.run_plan(run, plan.layout),
            lambda pair: self.editing.replace_plan(pair, "open the plan of a run"),
            self._view.show_error,
        )

    def save_plan(self, path: Path) -> None:
        """Write the plan, and the bits of a quantized model, as JSON."""
        pair = self.editing.pair
        if pair is None:
            return
        try:
            write_atomically(path, pair.text().encode())
        except WinaError as error:
            self._view.show_error(str(error))

    def show(self, key: MapKey) -> None:
        """Show another table in the heatmap; edits change the bits while they are shown, else the targets."""
        self._key = key
        self.editing.edit("bits" if key == "bits" else "sparsity")
        self._show_map()

    def cell_text(self, cell: Cell) -> str:
        """Return all known numbers of a cell, for its tooltip."""
        plan, maps, selection = self._workspace.plan, self._maps, self._workspace.method.selection
        if plan is None or maps is None:
            return ""
        layer, column = cell
        lines = [f"layer {layer} · {plan.layout.projections[column]}"]
        for key in MAP_KEYS:
            value = float(maps.table(key)[cell])
            scale = scale_for(key, np.array([value]), selection)
            is_measured = not math.isnan(value)
            if is_measured or key in _ALWAYS_SHOWN:
                text = f"{scale.text(value)} {scale.unit}".strip() if is_measured else "unknown"
                lines.append(f"{map_texts(key).name.lower()}: {text}")
        lines += [] if self._experts is None else self._experts.cell_text(layer, column)
        if cell in self.editing.locked:
            lines.append("locked: no edit changes it")
        return "\n".join(lines)

    def expert_text(self, detail: Detail) -> str:
        return "" if self._experts is None else self._experts.text(detail)

    def experts_table(self, layers: Sequence[int]) -> str:
        """Return everything known of these layers' experts, for the clipboard; empty without experts."""
        return "" if self._experts is None else self._experts.table(layers)

    def compare(self, other: SparsityPlan | None) -> None:
        """Show the differences to another plan; None ends it."""
        plan = self._workspace.plan
        if plan is None or (other is not None and other.layout != plan.layout):
            return
        self._end_comparison()
        if other is not None:
            self._other = other
            self.editing.edit("sparsity")
            self._key = "change"
        self._show_all()

    def _end_comparison(self) -> None:
        self._other = self._other_figures = None
        if self._key == "change":
            self._key = "target"

    def _context_changed(self) -> None:
        self._stored, self._other_figures = StoredPlanData(), None
        self._show_context()
        self._view.toolbar.show_method(self._workspace.method)
        self._show_bits()
        self._plan_changed()

    def _show_context(self) -> None:
        self._view.show_context(self._workspace.breadcrumb(), has_plan=self._workspace.plan is not None)

    def _quantization_changed(self) -> None:
        """Show another quantization of the model, for which other data are stored."""
        self._stored, self._other_figures = StoredPlanData(), None
        self._show_all()
        self.editing.show_selection()
        if not self.editing.in_gesture:
            self._read_stored()

    def _show_bits(self) -> None:
        bits = self.editing.bits
        if bits is not None:
            self._view.quantization.show_bits(bits)
            self._view.toolbar.show_quantizer(bits)

    def _plan_changed(self) -> None:
        plan, summary = self._workspace.plan, self._workspace.summary
        if plan is None or (summary is not None and plan.layout != summary.layout):
            return  # the workspace announces a new model before it replaces the plan of the earlier one
        if self._other is not None and self._other.layout != plan.layout:
            self._end_comparison()
        self._view.show_table([str(layer) for layer in range(plan.layout.layers)], plan.layout.projections)
        self._stored = StoredPlanData(cells=self._stored.cells)  # the measurement belongs to another plan
        self._show_all()
        self.editing.show_selection()
        if not self.editing.in_gesture:  # stored data are read once the drag is over
            self._read_stored()

    @property
    def subject(self) -> PlanSubject | None:
        """Return the edited plan with its configuration; None without a model."""
        work = self._workspace
        if work.source is None or work.plan is None:
            return None
        return PlanSubject(work.source, work.rotation, work.method, work.plan)

    def _read_stored(self) -> None:
        """Read stored data, one query at a time: later changes mark a running one as outdated."""
        if self._reading_subject is not None:
            self._outdated = True  # read again after the answer
            return
        subject = self.subject
        if subject is not None:
            self._reading_subject, stored_cells = subject, self._stored.cells
            self._store.ask(
                lambda store: read_plan_data(store, subject, stored_cells), self._show_stored, self._show_refusal
            )

    def _show_stored(self, stored: StoredPlanData) -> None:
        subject, self._reading_subject = self._reading_subject, None
        if self._outdated:
            self._outdated = False
            self._read_stored()
        current = self._stored
        # By identity of the cells: while no calibration is new, `read_plan_data` returns the earlier object.
        is_new = (stored.measured, stored.cells, stored.experts) != (current.measured, current.cells, current.experts)
        if is_new and subject == self.subject:  # else the plan has changed meanwhile, and is read again
            self._stored, self._other_figures = stored, None
            self._show_all()

    def _show_refusal(self, text: str) -> None:
        self._reading_subject, self._outdated = None, False
        self._view.show_error(text)

    def _show_all(self) -> None:
        plan = self._workspace.plan
        if plan is None:
            return
        bits = self.editing.bits
        table = None if bits is None else bits.table.array
        self._maps = PlanMaps(plan, self._workspace.method, self._stored, self._other, table)
        self._experts = self._expert_rows(self._maps)
        self._show_map()
        self._show_figures()

    def _show_map(self) -> None:
        if self._maps is not None:
            values = self._maps.table(self._key)
            reason = remark(self._key, self._maps, self._counting.configuration) if np.isnan(values).all() else ""
            quantized = self._workspace.quantization != "none"
            notes = cell_notes(self._maps, self._key, quantized=quantized)
            self._view.show_map(self._key, values, self._workspace.method.selection, reason, notes)
            if self._experts is not None:
                experts = self._experts
                self._view.show_experts(experts.counts, partial(experts.details, self._key), experts.widest)

    def _expert_rows(self, maps: PlanMaps) -> ExpertRows | None:
        """Return the experts of the plan's model; None while its sizes are unknown."""
        shape = None if self._workspace.summary is None else self._workspace.summary.shape
        if shape is None or shape.layout != maps.plan.layout:
            return None
        selection = self._workspace.method.selection
        return ExpertRows(shape, maps, selection, self._stored.experts, self._stored.cells.experts)

    def _show_figures(self) -> None:
        if self._maps is None:
            return
        if self._other is not None and self._other_figures is None:
            cells_alone = StoredPlanData(cells=self._stored.cells)  # the measurement is the present plan's
            self._other_figures = self._figures(PlanMaps(self._other, self._workspace.method, cells_alone))
        self._view.show_figures(self._figures(self._maps), self._other_figures)

    def _figures(self, maps: PlanMaps) -> PlanFigures:
        return plan_figures(maps, self._counting)

    @property
    def _counting(self) -> Counting:
        work = self._workspace
        return Counting(work.method, work.rotation, work.quantization, work.summary)
