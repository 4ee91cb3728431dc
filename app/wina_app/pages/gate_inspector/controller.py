"""Controller of the gate inspector: inspect the selected cell, and follow the plan."""

from collections import OrderedDict
from typing import Any

from PySide6.QtCore import QObject, QTimer

from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.gate_inspector.panel import GateInspector
from wina_app.pages.gate_inspector.view_state import (
    PROMPT,
    ComparedMethod,
    PlannedGate,
    compared_methods,
    planned_gates,
    target_of,
)
from wina_app.services.workbench import Workbench
from wina_app.shared.page_job import PageJob
from wina_core.analysis.gate_views import InspectedCell
from wina_core.jobs import InspectGateJob
from wina_core.records.gates import GateRecord
from wina_core.specs import MethodSpec
from wina_core.specs.plans import Cell

_PAUSE_MS = 250
"""Pause before a new selection is inspected automatically."""
_LIVE_MS = 15
"""Pause before the masks follow edits of the plan."""
_MAX_CELLS = 4
"""Inspected cells kept in memory; each takes some MB."""


class GateController(QObject):
    """Runner of one inspection at a time. After the first, selected cells are inspected automatically, unless that
    would first compute a long rotation."""

    def __init__(self, workbench: Workbench, view: GateInspector) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._workspace = workbench.workspace
        self._cell: Cell | None = None
        self._prompt = PROMPT
        self._ticks: dict[str, bool] = {}
        self._visible = self._follows = False
        self._running = PageJob(workbench, view, "The inspection was cancelled.")
        self._running.changed.connect(self._on_job)
        self._running.finished.connect(self._on_inspected)
        self._inspected: OrderedDict[InspectGateJob, InspectedCell] = OrderedDict()
        self._shown_cell: InspectedCell | None = None
        self._pause, self._live = (
            QTimer(self, singleShot=True, interval=interval) for interval in (_PAUSE_MS, _LIVE_MS)
        )
        self._pause.timeout.connect(self._inspect_automatically)
        self._live.timeout.connect(self._show_gates)
        self._workspace.model_changed.connect(self._forget_model)
        self._workspace.rotation_changed.connect(self._subject_changed)
        self._workspace.method_changed.connect(self._subject_changed)
        self._workspace.quantization_settled.connect(self._subject_changed)
        self._workspace.plan_changed.connect(self._plan_changed)
        view.visible_changed.connect(self.set_visible)
        view.form.prompt_changed.connect(self.set_prompt)
        view.form.ticked.connect(self.tick)
        view.form.inspect_requested.connect(self.inspect)
        view.form.cancel_requested.connect(self._running.cancel)
        self._subject_changed()

    def set_visible(self, visible: bool) -> None:
        """Follow the plan while the inspector is shown."""
        self._visible = visible
        if visible:
            self._subject_changed()

    def select(self, cell: Cell | None) -> None:
        """Select a cell (layer, index into the layout's projections); None for none or many."""
        if cell != self._cell:
            self._cell = cell
            self._subject_changed()

    def set_prompt(self, text: str) -> None:
        self._prompt = text
        self._show_action()

    def tick(self, method: MethodSpec, on: bool) -> None:
        self._ticks[method.label] = on
        self._subject_changed()

    def inspect(self, *, automatic: bool = False) -> None:
        """Inspect the selected cell in the engine, or show it from memory; `automatic` starts no long rotation."""
        job = self._job()
        if job is None or self._reason():
            return
        self._follows = True
        self._view.clear_message()
        inspected = self._find(job)
        # Only the engine computes other masks and errors.
        if inspected is not None and not any(
            planned.outdated or planned.error is None for planned in self._gates(inspected)
        ):
            self._show(inspected)
            return
        name = f"layer {job.layer} · {job.projection}"
        self._running.ask_and_start(job, f"Inspect the gate of {name}", silent=automatic)

    def _forget_model(self) -> None:
        self._inspected.clear()
        self._cell = None
        self._subject_changed()

    def _plan_changed(self) -> None:
        if self._visible:
            self._live.start()

    def _subject_changed(self) -> None:
        """Follow a change of cell, model, rotation or methods."""
        if self._cell is not None and not self._fits(self._cell):
            self._cell = None
        self._live.stop()
        self._show_gates()
        job = self._job()
        if self._shown_cell is None and self._visible and self._follows and job is not None:
            self._pause.start()
        else:
            self._pause.stop()

    def _inspect_automatically(self) -> None:
        # An inspection that nobody requested must not delay what the user waits for.
        waits = any(entry.is_interactive for entry in self._workbench.jobs.active)
        if self._visible and self._shown_cell is None and not waits:
            self.inspect(automatic=True)

    def _show_gates(self) -> None:
        plan, cell = self._workspace.plan, self._cell
        if plan is None or cell is None:
            self._view.show_subject("", compared_methods(self._workspace.method, "", self._ticks), None)
        else:
            name = f"layer {cell[0]} · {plan.layout.projections[cell[1]]}"
            target = plan.sparsity[cell[0]][cell[1]]
            self._view.show_subject(name, self._cell_methods(), target)
        job = self._job()
        self._show(None if job is None else self._find(job))

    def _show(self, cell: InspectedCell | None) -> None:
        self._shown_cell = cell
        self._view.show_cell(cell, () if cell is None else self._gates(cell))
        self._show_action()

    def _gates(self, cell: InspectedCell) -> tuple[PlannedGate, ...]:
        assert self._workspace.plan is not None  # it has the cell
        return planned_gates(cell, self._workspace.plan)

    def _show_action(self) -> None:
        self._view.form.show_progress(self._running.entry)
        inspected = self._shown_cell is not None
        self._view.show_action("Inspect again" if inspected else "Inspect the gate", self._reason())

    def _reason(self) -> str:
        """Return why nothing can be inspected; empty if something can."""
        if self._workspace.source is None:
            return "Open a model first"
        if self._cell is None:
            return "Select one cell of the heatmap first"
        if not self._prompt.strip():
            return "Type a prompt first"
        if not self._chosen_methods():
            return "Tick a method that gates this projection first"
        if self._running.entry is not None:
            return "An inspection is running"
        return ""

    def _fits(self, cell: Cell) -> bool:
        plan = self._workspace.plan
        return plan is not None and cell[0] < plan.layout.layers and cell[1] < len(plan.layout.projections)

    def _cell_methods(self) -> tuple[ComparedMethod, ...]:
        plan = self._workspace.plan
        assert plan is not None  # there is a cell
        assert self._cell is not None
        return compared_methods(self._workspace.method, plan.layout.projections[self._cell[1]], self._ticks)

    def _chosen_methods(self) -> tuple[MethodSpec, ...]:
        return tuple(choice.method for choice in self._cell_methods() if choice.ticked and not choice.reason)

    def _job(self) -> InspectGateJob | None:
        workspace, cell = self._workspace, self._cell
        plan, source = workspace.plan, workspace.source
        if plan is None or source is None or cell is None or not self._prompt.strip() or not self._chosen_methods():
            return None
        return InspectGateJob(
            model=source,
            rotation=workspace.rotation,
            layer=cell[0],
            projection=plan.layout.projections[cell[1]],
            prompt=self._prompt,
            gates=tuple(target_of(plan, method, cell) for method in self._chosen_methods()),
        )

    def _find(self, job: InspectGateJob) -> InspectedCell | None:
        """Return the inspected cell of a job, at its targets or else at the latest others."""
        if job in self._inspected:
            return self._inspected[job]
        similar = next((other for other in reversed(self._inspected) if _differ_in_targets_only(other, job)), None)
        return None if similar is None else self._inspected[similar]

    def _on_job(self) -> None:
        ended = self._running.entry is None
        self._follows = self._follows and not ended  # else each selected cell would fail again
        self._show_action()

    def _on_inspected(self, entry: JobEntry) -> None:
        if isinstance(entry.job, InspectGateJob) and isinstance(entry.result, GateRecord):
            self._follows = True
            self._workbench.jobs.forget_result(entry.id)  # megabytes
            self._unpack(entry.job, entry.result)

    def _unpack(self, job: InspectGateJob, record: GateRecord) -> None:
        """Unpack a record, which has megabytes, on the store's thread."""

        def store_cell(cell: InspectedCell) -> None:
            if job.model != self._workspace.source:
                return
            self._inspected[job] = cell
            while len(self._inspected) > _MAX_CELLS:
                self._inspected.popitem(last=False)
            self._subject_changed()

        def unpack(_store: Any) -> InspectedCell:
            return InspectedCell(record)

        self._workbench.store.ask(unpack, store_cell, self._view.show_error)


def _differ_in_targets_only(first: InspectGateJob, second: InspectGateJob) -> bool:
    methods = [[gate.method for gate in job.gates] for job in (first, second)]
    plain = [job.model_copy(update={"gates": ()}) for job in (first, second)]
    return methods[0] == methods[1] and plain[0] == plain[1]
