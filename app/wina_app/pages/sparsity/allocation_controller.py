"""Controllers of the page's jobs: an allocation, whose result becomes the plan, and a calibration."""

from dataclasses import dataclass

from pydantic import ValidationError
from PySide6.QtCore import QObject, Signal

from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.pages.sparsity.plan_editor import PlanEditor
from wina_app.pages.sparsity.toolbar import JointBudget
from wina_app.services.workbench import Workbench
from wina_app.shared.heatmap_tables import bits_text
from wina_app.shared.page_job import PageJob
from wina_app.shared.product_question import ProductQuestion
from wina_app.style.number_format import percent
from wina_core.errors import WinaError, explain
from wina_core.jobs import AllocateJob, AllocateJointlyJob, CalibrateJob
from wina_core.model_info.cost.terms import group_scale_bits
from wina_core.records import AllocationRecord, JointRecord
from wina_core.specs import (
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    Configuration,
    JointSpec,
    QuantizationSpec,
)
from wina_core.specs.plans import same_table
from wina_core.specs.quantization import PlanPair, check_made

CANCELLED_RESULTS_STAY = (
    "The allocation was cancelled. Results so far are kept: allocating the same again continues from there."
)
_MEASURE = "Measure KL curves"
_SMALL_BUDGET = 0.1
"""Budget for measuring curves alone: they do not depend on it, and every method reaches it."""
OTHER_CONFIGURATION = (
    "The allocation is done, but for another model, rotation or method; choose those again and allocate: the result is "
    "stored."
)


class AllocationController(QObject):
    """Runner of one allocation at a time; its result is one undo step."""

    allocated = Signal(object)
    """SparsityPlan found for the chosen configuration."""

    def __init__(self, workbench: Workbench, view: SparsityPage, plans: PlanEditor) -> None:
        super().__init__()
        self._workbench, self._view, self._plans = workbench, view, plans
        self._workspace = workbench.workspace
        self._job = PageJob(workbench, view, CANCELLED_RESULTS_STAY)
        self._job.changed.connect(lambda: view.show_allocating(self._job.entry))
        self._job.finished.connect(self._apply_result)
        self._finished: list[_FinishedAllocation] = []
        self._workspace.plan_changed.connect(self._show_outcome)
        self._workspace.quantization_changed.connect(self._show_outcome)
        self._workspace.model_changed.connect(self._show_outcome)
        self._workspace.rotation_changed.connect(self._show_outcome)
        self._workspace.method_changed.connect(self._show_outcome)
        view.toolbar.allocation_chosen.connect(self.allocate)
        view.toolbar.joint_chosen.connect(self.allocate_jointly)
        view.measure_kl.clicked.connect(self.measure_divergences)
        view.allocation.pause_requested.connect(self._job.pause)
        view.allocation.resume_requested.connect(self._job.resume)
        view.allocation.cancel_requested.connect(self._job.cancel)

    def allocate(self, allocator: AllocatorSpec, budget: float) -> None:
        """Allocate the budget (fraction) for the current configuration; uniform needs no job."""
        if allocator.name == "uniform":
            self._plans.set_uniform(budget)
            return
        self._submit_budget(allocator, budget, f"Allocate {percent(budget)} by {allocator.label}")

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
        # Unquantized: the job finds the bits itself.
        job = AllocateJointlyJob(
            model=workspace.source.unquantized, rotation=workspace.rotation, method=workspace.method, spec=spec
        )
        self._submit(job, f"Allocate: {spec.label}")

    def measure_divergences(self) -> None:
        """Measure the KL curves of `curves` and `refine`; the plan stays."""
        self._submit_budget(AllocatorSpec(name="curves"), _SMALL_BUDGET, _MEASURE)

    def _submit_budget(self, allocator: AllocatorSpec, budget: float, title: str) -> None:
        workspace = self._workspace
        if workspace.source is not None:
            job = AllocateJob(
                model=workspace.source,
                rotation=workspace.rotation,
                method=workspace.method,
                plan=AllocatedSparsity(sparsity=budget, allocator=allocator),
            )
            self._submit(job, title)

    def _submit(self, job: AllocateJob | AllocateJointlyJob, title: str) -> None:
        if self._job.entry is None:
            self._view.clear_message()
            configuration = Configuration(rotation=job.rotation, method=job.method).label
            self._job.ask_and_start(job, f"{title}: {configuration}")

    def _apply_result(self, entry: JobEntry) -> None:
        finished = _finished_allocation(entry)
        if finished is None or entry.title.startswith(_MEASURE):  # the curves are in the store, for all readers
            return
        if not self._is_chosen(finished.job):
            self._view.show_notice(OTHER_CONFIGURATION)
            return
        self._finished.append(finished)
        self.allocated.emit(finished.pair.plan)
        method = self._workspace.method
        if _is_in_planes(finished.job):  # the plan is made for gates by threshold
            method = method.model_copy(update={"selection": "threshold"})
        self._plans.replace_plan(finished.pair, f"allocate by {finished.name}", method)
        self._show_outcome()

    def _show_outcome(self) -> None:
        """Show the outcome of the current plan's allocation, also after undo and redo."""
        for finished in reversed(self._finished):
            if self._is_chosen(finished.job) and self._is_current(finished.pair):
                self._view.show_outcome(finished.text, finished.details)
                return
        self._view.show_outcome("", "")

    def _is_current(self, pair: PlanPair) -> bool:
        bits = pair.quantization
        return same_table(self._workspace.plan, pair.plan) and bits in (None, self._workspace.quantization)

    def _is_chosen(self, job: AllocateJob | AllocateJointlyJob) -> bool:
        """Return whether the job was for the current model, rotation and method; a joint one finds the bits itself."""
        workspace, source = self._workspace, self._workspace.source
        if source is not None and isinstance(job, AllocateJointlyJob):
            source = source.unquantized
        method = job.method
        if _is_in_planes(job):  # its result does not depend on the selection
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


def outcome(allocator: AllocatorSpec, record: AllocationRecord) -> str:
    """Return for example "curves: curve error 0.0123, at most 2 % above the optimum on the curves"."""
    unit = " nats per token" if record.objective == "KL" else ""
    return _with_gap(f"{allocator.label}: {record.objective} {record.value:.3g}{unit}", record)


def joint_outcome(spec: JointSpec, record: JointRecord) -> str:
    """Return for example "joint, 4.5 bits read: KL 0.0123 nats per token, 4.49 bits read and 5.2 held".

    A plan in planes names its selection by threshold instead of the gap.
    """
    bits = f"{record.bits_read:.3g} bits read and {record.bits_held:.3g} held"
    text = f"{spec.label}: KL {record.kl:.3g} nats per token, {bits}"
    return f"{text}, by threshold selection" if spec.in_planes else _with_gap(text, record)


def effort(record: AllocationRecord | JointRecord) -> str:
    """Return the passes and seconds of a search, in words."""
    return f"{record.evaluations:,} forward passes of the model, {record.seconds:.0f} s"


def _with_gap(text: str, record: AllocationRecord | JointRecord) -> str:
    """Add the largest gap of objective and bound, as a fraction of the bound, where it is known."""
    if record.bound is None or record.bound <= 0 < record.value:
        return text
    gap = 0.0 if record.bound <= 0 else max(0.0, record.value / record.bound - 1)
    if gap < 5e-5:
        return f"{text}, the optimum on the curves"
    return f"{text}, at most {100 * gap:.2g} % above the optimum on the curves"


def joint_spec(budget: JointBudget, settings: QuantizationSpec) -> JointSpec:
    """Return the allocation of bits by a quantizer within a budget. Raise WinaError where none of them can meet it."""
    check_made(settings)
    if budget.read is None and budget.held is None:
        raise WinaError("An allocation of bits needs a budget: set the bits read, the bits held, or both.")
    if settings.quantizer == "planes":
        return _planes_spec(budget, settings)
    spec = JointSpec(bits_read=budget.read, bits_held=budget.held, quantization=settings)
    lowest = spec.choices[0]
    least = lowest + group_scale_bits(lowest) / settings.group
    if budget.held is not None and budget.held < least:
        raise WinaError(
            f"A budget of {bits_text(budget.held)} bits held per weight is below what the bits allow: "
            f"{bits_text(lowest)} bits with scales and "
            f"zeros for groups of {settings.group} hold {bits_text(least)}; raise it, or choose another "
            "quantizer or group."
        )
    return spec


def _planes_spec(budget: JointBudget, settings: QuantizationSpec) -> JointSpec:
    """Return the allocation of planes, which hold 8 bits without a budget."""
    if budget.read is None:
        raise WinaError("Weights in planes need a budget of bits read: gates choose the planes; set it.")
    usual = JointSpec.model_fields["quantization"].default
    planes = usual.model_copy(update={name: getattr(settings, name) for name in ("by_energy", "head_bits", "text")})
    try:
        return JointSpec(bits_read=budget.read, bits_held=budget.held, quantization=planes, refined=budget.refined)
    except ValidationError as error:
        raise WinaError(explain(error)) from error


class CalibrationController(QObject):
    """Queues calibrations, and shows those of every other page too."""

    def __init__(self, workbench: Workbench, view: SparsityPage) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._question = ProductQuestion(workbench, view)
        view.calibrate.clicked.connect(self.calibrate)
        workbench.jobs.added.connect(self._show_running)
        workbench.jobs.ended.connect(self._show_running)

    def calibrate(self) -> None:
        """Queue a calibration of the current model, rotation and method."""
        work = self._workbench.workspace
        if work.source is not None:
            configuration = Configuration(rotation=work.rotation, method=work.method)
            job = CalibrateJob(
                model=work.source,
                rotation=configuration.rotation,
                method=configuration.method,
                calibration=CalibrationSpec(),
            )
            title = f"Calibrate {configuration.label}"
            self._question.before(job, lambda: self._workbench.submit(job, title))

    def _show_running(self, _job_id: str) -> None:
        self._view.show_calibrating(any(isinstance(entry.job, CalibrateJob) for entry in self._workbench.jobs.active))
