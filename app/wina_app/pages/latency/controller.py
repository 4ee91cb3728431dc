"""Controller of the Latency page: turn the choice into a sweep, queue it, and show stored points."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from PySide6.QtCore import QObject, QTimer

from wina_app.pages.latency.form import ChoiceError
from wina_app.pages.latency.page import LatencyPage
from wina_app.pages.latency.plan import JobPlan, plan_job
from wina_app.services.workbench import Workbench
from wina_app.shared.latency.chart import Chart, YAxis, decode_chart, product_chart
from wina_app.shared.latency.choices import PointSelection, make_choices
from wina_app.shared.latency.table import DecodeEntry, ProductEntry, TimedEntry, make_entries
from wina_app.shared.product_question import ProductQuestion
from wina_app.shared.store_reading import StoreReading
from wina_app.style.number_format import plural
from wina_app.widgets.table_model import Key, RowTable
from wina_core.jobs import DecodeJob, LatencyJob
from wina_core.records import SweepReport
from wina_core.specs.latency import DecodeSpec, LatencySpec

Kind = Literal["products", "decoding"]
_SETTLE_MS = 150
"""Debounce of the count."""


@dataclass
class _Sheet:
    """Stored points of products, or of decoding."""

    entry: type[TimedEntry]
    chart: Callable[[Any, YAxis], Chart]
    read: Callable[[Any], list[Any]]
    """Stored points."""
    picked: PointSelection = field(default_factory=PointSelection)
    entries: dict[Key, TimedEntry] = field(default_factory=dict)
    """Entries of all machines; the table has those of one."""
    table: RowTable = field(init=False)

    def __post_init__(self) -> None:
        self.table = RowTable(self.entry.columns)


class LatencyController(QObject):
    """Controller of the tables and plots; the tables are shared with the view."""

    def __init__(self, workbench: Workbench, view: LatencyPage) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._workspace = workbench.workspace
        self._sheets: dict[Kind, _Sheet] = {
            "products": _Sheet(ProductEntry, product_chart, lambda store: store.latency_rows()),
            "decoding": _Sheet(DecodeEntry, decode_chart, lambda store: store.decode_rows()),
        }
        self._kind: Kind = "products"
        self._y_axis: YAxis = "speedup"
        self._drawn: Any = None
        self._request = 0
        self._submitted_ids: set[str] = set()
        self._question = ProductQuestion(workbench, view)
        self._shown_job: str | None = None
        self.reading = StoreReading(workbench, self.read, self)
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settle.timeout.connect(self._count_if_visible)
        workbench.stopped.connect(self._settle.stop)
        self._workspace.model_changed.connect(self._on_context)
        self._workspace.loading_changed.connect(self._on_context)
        self._workspace.rotation_changed.connect(self._on_context)
        self._workspace.method_changed.connect(self._on_context)
        self._workspace.quantization_settled.connect(self._on_context)
        workbench.environment_changed.connect(self._show)
        workbench.machines.changed.connect(self._settle.start)
        workbench.jobs.added.connect(self._settle.start)
        workbench.jobs.requeued.connect(self._settle.start)
        workbench.jobs.ended.connect(self._on_job_ended)
        workbench.jobs.changed.connect(self._on_job_changed)
        workbench.jobs.arranged.connect(self._show_job)
        self._connect_view()
        self._view.show_kind(self._kind, self.table)
        self._on_context()
        self._show()

    def _connect_view(self) -> None:
        view = self._view
        view.form.changed.connect(self.change)
        view.visible_changed.connect(self.set_visible)
        view.primary_triggered.connect(self.measure)
        view.kind_chosen.connect(self.choose_kind)
        view.y_axis_chosen.connect(self.choose_y_axis)
        view.points_chosen.connect(self.pick)
        view.row_chosen.connect(self.select)
        view.progress.pause_requested.connect(self.pause)
        view.progress.resume_requested.connect(self.resume)
        view.progress.cancel_requested.connect(self.cancel)

    @property
    def _sheet(self) -> _Sheet:
        return self._sheets[self._kind]

    @property
    def table(self) -> RowTable:
        """Return the table of the current kind on the chosen machine."""
        return self._sheet.table

    def change(self) -> None:
        """Recount after the user stops typing (debounced)."""
        self._view.show_counting()
        self._settle.start()

    def set_visible(self, visible: bool) -> None:
        """Read and count while the page is shown, and not while it is hidden."""
        self.reading.set_visible(visible)
        if visible:
            self._settle.start()

    def choose_kind(self, kind: Kind) -> None:
        """Measure and show products, or decoding."""
        if kind == self._kind:
            return
        self._kind = kind
        self._view.show_kind(kind, self.table)
        self._on_context()
        self.read()
        self._show()

    def choose_y_axis(self, y_axis: YAxis) -> None:
        self._y_axis = y_axis
        self._show()

    def pick(self, name: str, value: Any) -> None:
        """Plot the points of another "machine", "subject" or "load"."""
        self._pick(**{name: value})

    def select(self, row: int) -> None:
        """Plot the subject and load of a table's row."""
        entries = self.table.shown
        if 0 <= row < len(entries):
            self._pick(subject=entries[row].subject[0], load=entries[row].load[0])

    def measure(self) -> None:
        """Queue the sweep's points that are not measured on this machine, or all if chosen."""
        spec, again = self._make_spec(), self._view.measures_again()
        if spec is None:
            return
        self._view.clear_message()

        # Counted again: points may have been stored since.
        self._plan(spec, again, lambda plan: self._submit(spec, plan), self._view.show_error)

    def pause(self) -> None:
        if self._shown_job is not None:
            self._workbench.pause(self._shown_job)

    def resume(self) -> None:
        if self._shown_job is not None:
            self._workbench.resume(self._shown_job)

    def cancel(self) -> None:
        """Cancel the sweep; its finished points are stored."""
        if self._shown_job is not None:
            self._workbench.cancel(self._shown_job)

    def read(self) -> None:
        sheet = self._sheet
        previous = sheet.entries

        def answer(entries: dict[Key, TimedEntry]) -> None:
            if entries != sheet.entries:
                sheet.entries = entries
                self._show()
                self._settle.start()

        # Sorted out on the store's thread; unchanged entries are used again.
        self._workbench.store.ask(
            lambda store: make_entries(sheet.read(store), previous, sheet.entry), answer, self._view.show_error
        )

    def _pick(self, **chosen: Any) -> None:
        self._sheet.picked = replace(self._sheet.picked, **chosen)
        self._show()

    def _show(self) -> None:
        sheet = self._sheet
        offer = make_choices(list(sheet.entries.values()), sheet.picked, self._workbench.environment)
        machine_entries = [entry for entry in sheet.entries.values() if entry.machine == offer.machine]
        sheet.table.set_entries(machine_entries)
        self._view.show_offer(offer)
        rows = [
            entry.row for entry in machine_entries if (entry.subject[0], entry.load[0]) == (offer.subject, offer.load)
        ]
        drawn = self._kind, self._y_axis, offer.machine, offer.subject, offer.load
        self._view.show_chart(sheet.chart(rows, self._y_axis), fresh=drawn != self._drawn)
        self._drawn = drawn

    def _count_if_visible(self) -> None:
        if self.reading.visible:
            self.count()

    def count(self) -> None:
        """Count the points of the sweep, and the measured ones."""
        spec, again = self._make_spec(), self._view.measures_again()
        self._request += 1  # also without a sweep: the answer for an earlier one must not be shown
        if spec is None:
            return
        request, active = self._request, self._is_active(spec)
        budget = spec.budget_seconds if isinstance(spec, DecodeSpec) else None

        def answer(plan: JobPlan) -> None:
            if request == self._request:
                self._view.show_count(plan, active=active, budget_seconds=budget)

        def refused(text: str) -> None:
            if request == self._request:
                self._view.show_problems({"points": text})

        self._plan(spec, again, answer, refused)

    def _plan(
        self,
        spec: LatencySpec | DecodeSpec,
        again: bool,
        answer: Callable[[JobPlan], None],
        refused: Callable[[str], None],
    ) -> None:
        device = spec.device if isinstance(spec, LatencySpec) else spec.model.device
        environment = self._workbench.timing_environment(device, self._workbench.machines.chosen)
        self._workbench.store.ask(
            lambda store: plan_job(spec, environment, store.measured_points, again=again), answer, refused
        )

    def _make_spec(self) -> LatencySpec | DecodeSpec | None:
        """Return the chosen sweep; show its problems."""
        workspace = self._workspace
        try:
            spec = self._view.make_spec(workspace.source, workspace.rotation, workspace.method)
        except ChoiceError as error:
            self._view.show_problems(error.problems)
            return None
        self._view.show_problems({})
        return spec

    def _is_active(self, spec: LatencySpec | DecodeSpec) -> bool:
        jobs = [entry.job for entry in self._workbench.jobs.active]
        return any(isinstance(job, LatencyJob | DecodeJob) and job.spec == spec for job in jobs)

    def _submit(self, spec: LatencySpec | DecodeSpec, plan: JobPlan) -> None:
        if self._is_active(spec):  # requested twice before the first answer of the store
            return
        if isinstance(spec, LatencySpec):
            job: LatencyJob | DecodeJob = LatencyJob(spec=spec, stored=plan.stored)
            shapes = plural(len(spec.shapes), "shapes", "shape")
            title = f"Latency of {shapes}: {_points(plan.missing)}"
            sheet = self._sheets["products"]
        else:
            job, sheet = DecodeJob(spec=spec, stored=plan.stored), self._sheets["decoding"]
            title = f"Decoding by {spec.configuration.label}: {_points(plan.missing)}"

        def submit() -> None:
            # No picked values: the plots follow the new points.
            sheet.picked = PointSelection(since=time.time())
            self._submitted_ids.add(self._workbench.submit(job, title))

        self._question.before(job, submit)

    def _on_context(self) -> None:
        self._view.show_context(self._workspace.breadcrumb() if self._kind == "decoding" else [])
        self._settle.start()

    def _on_job_changed(self, job_id: str) -> None:
        if job_id == self._shown_job or self._shown_job is None:
            self._show_job()

    def _show_job(self) -> None:
        """Show the first sweep that has not ended, whichever window queued it."""
        active = self._workbench.jobs.active
        entry = next((candidate for candidate in active if isinstance(candidate.job, LatencyJob | DecodeJob)), None)
        self._shown_job = entry.id if entry is not None else None
        ahead = active[0] if active and entry is not None and active[0] is not entry else None
        self._view.show_job(entry, ahead.title if ahead is not None else "")

    def _on_job_ended(self, job_id: str) -> None:
        self._settle.start()
        self._show_job()
        if job_id not in self._submitted_ids:
            return
        entry = self._workbench.jobs[job_id]
        if entry.phase == "failed":
            self._view.show_error(entry.error, retry=partial(self._workbench.retry, job_id))
        elif entry.phase == "cancelled":
            self._view.show_notice("The measurement was cancelled; finished points are stored.")
        elif isinstance(entry.result, SweepReport):
            self._view.show_notice(summary(entry.result))


def summary(report: SweepReport) -> str:
    """Return the outcome of a sweep in sentences."""
    points, stored = _points(report.measured), f"{report.stored:,}"
    if report.bandwidth is None:
        sentence = f"{points} measured, {stored} stored before."
    else:
        sentence = f"{points} measured, {stored} stored before; memory bandwidth {report.bandwidth:.4g} GB/s."
    return " ".join([sentence, *(f"Left out, {reason}" for reason in report.skipped)])


def _points(number: int) -> str:
    return plural(number, "points", "point")
