"""Recorder of an engine's events in the store, for the window and the command line."""

from wina_core.errors import WinaError
from wina_core.jobs import (
    AllocateJob,
    AllocateJointlyJob,
    CalibrateJob,
    CompletionFinished,
    CostJob,
    DecodeJob,
    Done,
    EvaluateJob,
    Event,
    ExportGgufJob,
    ExportModelJob,
    Failed,
    GenerateJob,
    InspectGateJob,
    InspectJob,
    Job,
    LatencyJob,
    Measured,
    Partial,
    Ready,
    Result,
    ResultValue,
    RotateJob,
    RunFailed,
    RunStarted,
    Submit,
)
from wina_core.records import (
    AllocationRecord,
    CalibrationRecord,
    CostRecord,
    DecodeRecord,
    Environment,
    ExportRecord,
    GgufRecord,
    JointRecord,
    LatencyRecord,
    ModelSummary,
    RotationReport,
    RunStatus,
    SweepReport,
)
from wina_core.records.completions import CompletionRecord
from wina_core.records.gates import GateRecord
from wina_core.specs import DivergenceSpec
from wina_core.store.writer import Writer

Recorded = Submit | Ready | RunStarted | Partial | Measured | CompletionFinished | RunFailed | Result | Failed | Done
"""A message that the recorder of a job needs."""
NOT_REACHED = "Its job ended before this run was finished; run it again to compute what is missing."


class Recorder:
    """Recorder of one job, whose every event goes to `record`. Save its runs with `Store.save_study` before."""

    def __init__(self, store: Writer, job: Job, environment: Environment | None = None) -> None:
        """`environment` is that of the numbers until Ready names another."""
        self._store = store
        self._job = job
        self._environment = environment
        self._current: str | None = None

    def record(self, event: Event) -> None:
        """Store the event's content; events without any are ignored."""
        match event:
            case Ready():
                self._environment = event.environment
            case RunStarted():
                self._current = event.run
                self._store.begin_run(event.run, event.environment or self._environment)
            case Partial():
                self._store.record_unit(event.unit)
                if event.rotation is not None and isinstance(self._job, EvaluateJob):
                    specs = (pending.spec for pending in self._job.runs)
                    spec = next(run_spec for run_spec in specs if run_spec.content_hash() == event.unit.run)
                    self._store.record_rotation(spec.model, spec.rotation, event.rotation)
            case Measured(record=LatencyRecord() as record):
                self._store.record_latency(record)
            case Measured(record=DecodeRecord() as record):
                self._store.record_decoding(record)
            case CompletionFinished() if event.tokens:
                self._completion(event)
            case RunFailed():
                self._store.finish_run(event.run, "failed", event.error)
            case Result():
                self._result(event.value)
            case Failed():
                run = event.run or self._current
                # The run that was begun last may have ended before its job failed.
                if run is not None and self._store.run_status(run) == "running":
                    self._store.finish_run(run, "failed", event.error)
                self._end_the_rest("interrupted", NOT_REACHED if run is not None else event.error)
            case Done():
                self._end_the_rest(
                    "cancelled" if event.cancelled else "interrupted", "" if event.cancelled else NOT_REACHED
                )

    def _result(self, value: ResultValue) -> None:
        match self._job, value:
            case InspectJob() as job, ModelSummary():
                self._store.record_model(job.model, value)
            case RotateJob() as job, RotationReport():
                self._store.record_rotation(job.model, job.rotation, value)
            case CalibrateJob() as job, CalibrationRecord():
                self._store.record_calibration(job.model, job.rotation, job.method, job.calibration.measured, value)
            case AllocateJob() as job, AllocationRecord():
                self._curves(job, value)  # the engine's cache has the rest, and every run under it stores its table
            case (
                (AllocateJointlyJob(), JointRecord())  # in the engine's cache; its plan and bits are saved as any
                | (CostJob(), CostRecord())  # arithmetic, done again sooner than read
                | (InspectGateJob(), GateRecord())  # seconds of work, and megabytes of numbers to look at once
                | (ExportModelJob(), ExportRecord())  # in the folder that the user named
                | (ExportGgufJob(), GgufRecord())  # in the file that the user named
                | (LatencyJob() | DecodeJob(), SweepReport())  # each point is stored already
            ):
                pass
            case _:
                raise WinaError(f"A {self._job.kind} job returned a {type(value).__name__}; nothing of it is stored.")

    def _completion(self, event: CompletionFinished) -> None:
        assert isinstance(self._job, GenerateJob)
        record = CompletionRecord(
            point=self._job.point(event.configuration),
            environment=event.environment or self._environment,
            end=event.end,
            prompt_tokens=event.prompt_tokens,
            sparsity=event.sparsity,
            tokens=event.tokens,
        )
        self._store.record_completion(record)

    def _curves(self, job: AllocateJob, record: AllocationRecord) -> None:
        """Store the curves of a search, which serve every budget."""
        if record.curves:
            text = job.plan.allocator.text
            curves = CalibrationRecord(key=record.key, tokens=text.tokens, layers=record.curves, seconds=record.seconds)
            spec = DivergenceSpec(divergence_text=text)
            self._store.record_calibration(job.model, job.rotation, job.method, spec, curves)

    def _end_the_rest(self, status: RunStatus, error: str) -> None:
        if isinstance(self._job, EvaluateJob):
            self._store.end_runs((pending.spec.content_hash() for pending in self._job.runs), status, error)


class Recorders:
    """Recorders of all jobs of a process."""

    def __init__(self, store: Writer) -> None:
        self._store = store
        self._environment: Environment | None = None
        self._jobs: dict[str, Recorder] = {}

    def record(self, message: Submit | Event) -> None:
        """Store a message's content; messages without any are ignored.

        A job's Submit comes before its events; another one while the job lives changes nothing. Raises WinaError for an
        event of an unknown job, and for what the database refuses.
        """
        if not isinstance(message, Recorded):
            return
        match message:
            case Ready():
                self._environment = message.environment
                for recorder in self._jobs.values():
                    recorder.record(message)
            case Submit():
                self._jobs.setdefault(message.job_id, Recorder(self._store, message.job, self._environment))
            case _:
                if message.job_id not in self._jobs:
                    raise WinaError(f"the job {message.job_id} of a result is not known")
                self._jobs[message.job_id].record(message)
                if isinstance(message, Failed | Done):
                    del self._jobs[message.job_id]
