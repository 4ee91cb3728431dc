"""Tells the Sparsity page what to show of the workspace's plan; what edits it is a controller of its own."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from PySide6.QtCore import QObject, Signal

from wina_app.pages.sparsity import plan_files
from wina_app.pages.sparsity.heatmap_tables import PlanMaps, remark
from wina_app.pages.sparsity.plan_editor import EditingView, SparsityEditing
from wina_app.pages.sparsity.plan_summary import Counting, PlanFigures, plan_figures
from wina_app.pages.sparsity.stored_data import Facts, Subject, read_facts
from wina_app.services.store_thread import StoreThread
from wina_app.services.workspace import Workspace
from wina_app.shared.colour_scales import MapKey
from wina_app.style.translation import tr
from wina_core.engine.protocol import CalibrateJob
from wina_core.errors import WinaError
from wina_core.methods.searched import read_searched_shares
from wina_core.specs import CalibrationSpec, MethodSpec
from wina_core.specs.plans import Cell, SparsityPlan, load_plan


class SparsityView(EditingView, Protocol):
    """What the controller needs of the page."""

    def show_table(self, layers: Sequence[str], projections: Sequence[str]) -> None:
        """Name the rows and columns."""

    def show_map(self, key: MapKey, values: np.ndarray, remark: str) -> None:
        """Show a table of numbers; `remark` says why it has none, if so."""

    def show_figures(self, figures: PlanFigures, other: PlanFigures | None) -> None:
        """Show the read-outs, and beside them how they differ from those of another plan."""

    def show_method(self, method: MethodSpec) -> None:
        """Show the gate rule."""

    def show_context(self) -> None:
        """Model, rotation or method changed."""


class SparsityController(QObject):
    """Between the workspace, the store and the page. Cells are (layer, index into the layout's projections)."""

    calibration_requested = Signal(object)
    """CalibrateJob for the present model, rotation and method."""

    def __init__(self, workspace: Workspace, store: StoreThread, view: SparsityView) -> None:
        super().__init__()
        self._workspace, self._store, self._view = workspace, store, view
        self.editing = SparsityEditing(workspace, view)
        self._facts = Facts()
        self._asked: Subject | None = None
        self._outdated = False
        self._key: MapKey = "target"
        self._maps: PlanMaps | None = None
        self._other: SparsityPlan | None = None
        self._others_figures: PlanFigures | None = None
        workspace.model_changed.connect(self._context_changed)
        workspace.rotation_changed.connect(self._context_changed)
        workspace.method_changed.connect(self._context_changed)
        workspace.plan_changed.connect(self._plan_changed)
        store.changed.connect(self._ask_store)
        self.editing.settled.connect(self._ask_store)
        self._context_changed()

    # ---- files ---------------------------------------------------------------------------------------------------

    def open_plan(self, path: Path) -> None:
        """Replace the plan by the one in a file, a plan's JSON or R-Sparse's searched shares; it must be for the loaded
        model's layout. Can be undone."""
        now = self._workspace.plan
        searched = now is not None and path.suffix.lower() == ".npy"
        self._store.ask(
            lambda _store: read_searched_shares(path, now.layout) if searched else load_plan(path),
            lambda plan: self.editing.take_over(plan, tr("open {name}", name=path.name)),
            self._view.show_error,
        )

    def save_plan(self, path: Path) -> None:
        """Write the plan as JSON."""
        if self._workspace.plan is None:
            return
        try:
            plan_files.write_plan(self._workspace.plan, path)
        except WinaError as error:
            self._view.show_error(str(error))

    # ---- what is shown -------------------------------------------------------------------------------------------

    def show(self, key: MapKey) -> None:
        """Switch the heatmap to another table."""
        self._key = key
        self._show_map()

    def value(self, key: MapKey, cell: Cell) -> float:
        """A number of the present state, NaN when unknown; for tooltips."""
        return math.nan if self._maps is None else float(self._maps.table(key)[cell])

    def compare(self, other: SparsityPlan | None) -> None:
        """Show how the plan differs from another one, or with None from none any more."""
        plan = self._workspace.plan
        if plan is None or (other is not None and other.layout != plan.layout):
            return
        self._forget_other()
        if other is not None:
            self._other, self._key = other, "change"
        self._show_all()

    def _forget_other(self) -> None:
        self._other = self._others_figures = None
        if self._key == "change":
            self._key = "target"

    def calibrate(self) -> None:
        """Ask for error curves of the present model, rotation and method."""
        source = self._workspace.source
        if source is not None:
            self.calibration_requested.emit(
                CalibrateJob(
                    model=source,
                    rotation=self._workspace.rotation,
                    method=self._workspace.method,
                    calibration=CalibrationSpec(),
                )
            )

    # ---- following the workspace ---------------------------------------------------------------------------------

    def _context_changed(self) -> None:
        self._facts, self._others_figures = Facts(), None
        self._view.show_context()
        self._view.show_method(self._workspace.method)
        self._plan_changed()

    def _plan_changed(self) -> None:
        plan, summary = self._workspace.plan, self._workspace.summary
        if plan is None or (summary is not None and plan.layout != summary.layout):
            return
        if self._other is not None and self._other.layout != plan.layout:
            self._forget_other()
        self._view.show_table([str(layer) for layer in range(plan.layout.layers)], plan.layout.projections)
        self._facts = Facts(cells=self._facts.cells)  # what was measured belongs to another plan
        self._show_all()
        self.editing.show_selection()
        if not self.editing.in_gesture:  # what is stored about a plan is asked for once the drag is over
            self._ask_store()

    # ---- following the store -------------------------------------------------------------------------------------

    def _subject(self) -> Subject | None:
        work = self._workspace
        if work.source is None or work.plan is None:
            return None
        return Subject(work.source, work.rotation, work.method, work.plan)

    def _ask_store(self) -> None:
        """One question at a time: while one is under way, changes only mark its answer as outdated."""
        if self._asked is not None:
            self._outdated = True
            return
        subject = self._subject()
        if subject is not None:
            self._asked, known = subject, self._facts.cells
            self._store.ask(lambda store: read_facts(store, subject, known), self._answered, self._refused)

    def _answered(self, facts: Facts) -> None:
        asked, self._asked = self._asked, None
        if self._outdated:
            self._outdated = False
            self._ask_store()
        news = (facts.measured, facts.cells) != (self._facts.measured, self._facts.cells)
        if news and asked == self._subject():
            self._facts, self._others_figures = facts, None
            self._show_all()

    def _refused(self, text: str) -> None:
        self._asked, self._outdated = None, False
        self._view.show_error(text)

    def _show_all(self) -> None:
        plan = self._workspace.plan
        if plan is None:
            return
        self._maps = PlanMaps(plan, self._workspace.method, self._facts, self._other)
        self._show_map()
        self._show_figures()

    def _show_map(self) -> None:
        if self._maps is not None:
            values = self._maps.table(self._key)
            reason = remark(self._key, self._maps, self._arm()) if np.isnan(values).all() else ""
            self._view.show_map(self._key, values, reason)

    def _show_figures(self) -> None:
        if self._maps is None:
            return
        if self._other is not None and self._others_figures is None:
            cells_alone = Facts(cells=self._facts.cells)  # what was measured is the present plan's
            self._others_figures = self._figures(PlanMaps(self._other, self._workspace.method, cells_alone))
        self._view.show_figures(self._figures(self._maps), self._others_figures)

    def _figures(self, maps: PlanMaps) -> PlanFigures:
        work = self._workspace
        quantization = "none" if work.source is None else work.source.quantization
        counting = Counting(work.method, work.rotation, quantization, work.summary)
        return plan_figures(maps, counting, self._arm())

    def _arm(self) -> str:
        work = self._workspace
        return tr("{method} with rotation {rotation}", method=work.method.label, rotation=work.rotation.label)
