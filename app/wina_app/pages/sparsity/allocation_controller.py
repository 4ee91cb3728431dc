"""Controller of allocations: the engine spreads a budget, the result becomes the plan."""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.sparsity.allocation_summary import effort, joint_outcome, outcome
from wina_app.pages.sparsity.editing.plan_editor import PlanEditor
from wina_app.pages.sparsity.joint_budget import JointBudget, joint_spec
from wina_app.services.workbench import Workbench
from wina_app.shared.message_view import MessageView
from wina_app.shared.product_question import ProductQuestion, QuestionView
from wina_app.style.number_format import percent
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.jobs import AllocateJob, AllocateJointlyJob
from wina_core.records import AllocationRecord, JointRecord
from wina_core.specs import AllocatedSparsity, AllocatorSpec, Configuration
from wina_core.specs.plans import same_table
from wina_core.specs.quantization import PlanPair

CANCELLED_RESULTS_STAY = tr(
    "The allocation was cancelled. Results so far are kept: allocating the same again continues from there."
)
_SMALL_BUDGET = 0.1
"""Budget for measuring curves alone: they do not depend on it, and every method reaches it."""
OTHER_CONFIGURATION = tr(
    "The allocation is done, but for another model, rotation or method; choose those again and allocate: the result is "
    "stored."
)


class AllocationView(MessageView, QuestionView, Protocol):
    """The page as its controller sees it."""

    def show_allocating(self, running: bool) -> None:
        """Enable cancelling while an allocation runs."""

    def show_allocation_progress(self, entry: JobEntry | None) -> None:
        """Show the progress of the allocation; None hides it."""

    def show_allocation(self, text: str, details: str) -> None:
        """Say how the current plan was allocated; empty if it was not."""


class AllocationController(QObject):
    """Runner of one allocation at a time; its result is one undo step."""

    allocated = Signal(object)
    """SparsityPlan found for the chosen configuration."""

    def __init__(self, workbench: Workbench, view: AllocationView, plans: PlanEditor) -> None:
        super().__init__()
        self._workbench, self._view, self._plans = workbench, view, plans
        self._workspace = workbench.workspace
        self._job_id: str | None = None
        self._last_job_id = ""
        """Last allocation job, also after it ended."""
        self._curves_only = False
        self._question = ProductQuestion(workbench, view)
        self._finished: list[_FinishedAllocation] = []
        self._workspace.plan_changed.connect(self._show_outcome)
        self._workspace.quantization_changed.connect(self._show_outcome)
        self._workspace.model_changed.connect(self._show_outcome)
        self._workspace.rotation_changed.connect(self._show_outcome)
        self._workspace.method_changed.connect(self._show_outcome)
        workbench.jobs.changed.connect(self._on_job_changed)
        workbench.jobs.ended.connect(self._on_job_ended)
        workbench.jobs.requeued.connect(self._on_requeued)

    def allocate(self, allocator: AllocatorSpec, budget: float) -> None:
        """Allocate the budget (fraction) for the current configuration; uniform needs no job."""
        if allocator.name == "uniform":
            self._plans.set_uniform(budget)
            return
        self._submit_budget(
            allocator, budget, tr("Allocate {budget} by {name}", budget=percent(budget), name=allocator.label)
        )

    def allocate_jointly(self, budget: JointBudget) -> None:
        """Allocate bits, of the chosen quantizer, and sparsity within budgets of bits."""
        bits, workspace = self._plans.bits, self._workspace
        if bits is None or workspace.source is None:
            return
        try:
            spec = joint_spec(budget, bits.settings)
        except WinaError as error:
            self._view.show_error(str(error))
            return
        job = AllocateJointlyJob(
            model=workspace.source.unquantized, rotation=workspace.rotation, method=workspace.method, spec=spec
        )
        self._submit(job, tr("Allocate: {name}", name=spec.label))

    def measure_divergences(self) -> None:
        """Measure the KL curves of `curves` and `refine`; the plan stays."""
        self._submit_budget(AllocatorSpec(name="curves"), _SMALL_BUDGET, tr("Measure KL curves"), curves_only=True)

    def _submit_budget(self, allocator: AllocatorSpec, budget: float, title: str, *, curves_only: bool = False) -> None:
        workspace = self._workspace
        if workspace.source is not None:
            job = AllocateJob(
                model=workspace.source,
                rotation=workspace.rotation,
                method=workspace.method,
                plan=AllocatedSparsity(sparsity=budget, allocator=allocator),
            )
            self._submit(job, title, curves_only=curves_only)

    def _submit(self, job: AllocateJob | AllocateJointlyJob, title: str, *, curves_only: bool = False) -> None:
        if self._job_id is not None:
            return
        self._view.clear_message()
        configuration = Configuration(rotation=job.rotation, method=job.method).label

        def submit() -> None:
            self._curves_only = curves_only
            self._job_id = self._last_job_id = self._workbench.submit(job, f"{title}: {configuration}")
            self._view.show_allocating(True)
            self._view.show_allocation_progress(self._workbench.jobs[self._job_id])

        self._question.before(job, submit)

    def cancel(self) -> None:
        """Cancel at the next batch; results so far are kept."""
        if self._job_id is not None:
            self._workbench.cancel(self._job_id)

    def _on_job_changed(self, job_id: str) -> None:
        if job_id == self._job_id:
            entry = self._workbench.jobs[job_id]
            self._view.show_allocating(entry.active)
            self._view.show_allocation_progress(entry if entry.active else None)

    def _on_requeued(self, job_id: str) -> None:
        if job_id == self._last_job_id:
            self._job_id = job_id
            self._view.clear_message()
            self._on_job_changed(job_id)

    def _on_job_ended(self, job_id: str) -> None:
        if job_id != self._job_id:
            return
        self._job_id = None
        self._view.show_allocating(False)
        self._view.show_allocation_progress(None)
        entry = self._workbench.jobs[job_id]
        if entry.phase == "failed":
            self._view.show_error(entry.error, retry=partial(self._workbench.retry, job_id))
        elif entry.phase == "cancelled":
            self._view.show_notice(CANCELLED_RESULTS_STAY)
        elif not self._curves_only:  # else they are stored, where everybody reads them
            self._apply_result(entry)

    def _apply_result(self, entry: JobEntry) -> None:
        finished = _finished_allocation(entry)
        if finished is None:
            return
        if not self._is_chosen(finished.job):
            self._view.show_notice(OTHER_CONFIGURATION)
            return
        self._finished.append(finished)
        self.allocated.emit(finished.pair.plan)
        method = self._workspace.method
        if _is_in_planes(finished.job):  # the plan is made for gates by threshold
            method = method.model_copy(update={"selection": "threshold"})
        self._plans.replace_plan(finished.pair, tr("allocate by {allocator}", allocator=finished.name), method)
        self._show_outcome()

    def _show_outcome(self) -> None:
        """Show the outcome of the current plan's allocation, also after undo and redo."""
        for finished in reversed(self._finished):
            if self._is_chosen(finished.job) and self._is_current(finished.pair):
                self._view.show_allocation(finished.text, finished.details)
                return
        self._view.show_allocation("", "")

    def _is_current(self, pair: PlanPair) -> bool:
        bits = pair.quantization
        return same_table(self._workspace.plan, pair.plan) and bits in (None, self._workspace.quantization)

    def _is_chosen(self, job: AllocateJob | AllocateJointlyJob) -> bool:
        """Return whether the job was for the current model, rotation and method; bits are what a joint one finds."""
        workspace, source = self._workspace, self._workspace.source
        if source is not None and isinstance(job, AllocateJointlyJob):
            source = source.unquantized
        method = job.method
        if _is_in_planes(job):  # for any selection it finds the same
            method = method.model_copy(update={"selection": workspace.method.selection})
        return (job.model, job.rotation, method) == (source, workspace.rotation, workspace.method)


@dataclass(frozen=True)
class _FinishedAllocation:
    """The result of an allocation, with its texts."""

    job: AllocateJob | AllocateJointlyJob
    pair: PlanPair
    name: str
    text: str
    details: str


def _is_in_planes(job: AllocateJob | AllocateJointlyJob) -> bool:
    return isinstance(job, AllocateJointlyJob) and job.spec.in_planes


def _finished_allocation(entry: JobEntry) -> _FinishedAllocation | None:
    job, record = entry.job, entry.result
    if isinstance(job, AllocateJob) and isinstance(record, AllocationRecord):
        allocator = job.plan.allocator
        return _FinishedAllocation(
            job, PlanPair(plan=record.plan), allocator.label, outcome(allocator, record), effort(record)
        )
    if isinstance(job, AllocateJointlyJob) and isinstance(record, JointRecord):
        return _FinishedAllocation(job, record.pair, job.spec.label, joint_outcome(job.spec, record), effort(record))
    return None
