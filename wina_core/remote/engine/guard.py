"""Checks of another machine's events against the job that it was given: what nobody asked for fails that job."""

from wina_core.jobs import (
    AllocateJob,
    AllocateJointlyJob,
    CalibrateJob,
    CompletionFinished,
    CostJob,
    DecodeJob,
    Done,
    EstimateJob,
    EvaluateJob,
    Event,
    ExportGgufJob,
    ExportModelJob,
    Failed,
    GenerateJob,
    Held,
    InspectGateJob,
    InspectJob,
    Job,
    LatencyJob,
    Log,
    Measured,
    Partial,
    PendingRun,
    Progress,
    Ready,
    Refined,
    Result,
    RotateJob,
    RunFailed,
    RunFinished,
    RunStarted,
    Started,
    Submit,
    Token,
)
from wina_core.records import (
    AllocationRecord,
    CalibrationRecord,
    CostRecord,
    EstimateRecord,
    ExportRecord,
    GgufRecord,
    JointRecord,
    ModelSummary,
    RotationReport,
    SweepReport,
)
from wina_core.records.gates import GateRecord
from wina_core.remote.engine.content import safe
from wina_core.remote.engine.frames import Breach
from wina_core.remote.engine.translation import Translation
from wina_core.specs.machine import Machine

RESULTS: dict[type[Job], type] = {
    InspectJob: ModelSummary,
    RotateJob: RotationReport,
    CalibrateJob: CalibrationRecord,
    AllocateJob: AllocationRecord,
    AllocateJointlyJob: JointRecord,
    CostJob: CostRecord,
    InspectGateJob: GateRecord,
    EstimateJob: EstimateRecord,
    LatencyJob: SweepReport,
    DecodeJob: SweepReport,
    ExportModelJob: ExportRecord,
    ExportGgufJob: GgufRecord,
}
"""Kind of each job's result."""
SMALL = 2**18
"""Bytes of the longest event that brings no result and cannot be shortened."""
_LARGE = (Partial, Measured, CompletionFinished, Result, Log, Failed, RunFailed)


class Guard:
    """The job that another machine computes, and the results that may still come."""

    def __init__(self, submit: Submit, machine: Machine) -> None:
        """Take a job as it is named here. Raises WinaError for one that the machine cannot have."""
        self._machine = machine
        self._translation = Translation(submit.job, machine)
        self._job_id = submit.job_id
        self._job = submit.job
        self._missing: dict[str, set[str]] = {}
        """Units of each run that have not come."""
        if isinstance(submit.job, EvaluateJob):
            self._missing = {run.spec.content_hash(): set(run.units) for run in submit.job.runs}
        self._run_started = ""
        self.started = False
        """True once the job has begun there."""
        self._points: set[str] = set()
        """Hashes of a sweep's points that may come."""
        if isinstance(submit.job, LatencyJob | DecodeJob):
            self._points |= submit.job.spec.hashes()
        self.submit = submit.model_copy(update={"job": self._translation.job})
        """The job as it is named there."""

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._job_id

    def leftovers(self, partials: list[Partial]) -> list[Event]:
        """Return the results of an earlier bridge that belong to this job, which then is without them."""
        found: list[Event] = []
        for partial in partials:
            run = self._translation.runs.get(partial.unit.run, "")
            if partial.unit.unit in self._missing.get(run, ()):
                mine = safe(partial.model_copy(update={"job_id": self._job_id}))
                found += [RunStarted(job_id=self._job_id, run=run), self._take_unit(mine, run)]
                found += [RunFinished(job_id=self._job_id, run=run)] * (not self._missing[run])
        job = self.submit.job
        if found and isinstance(job, EvaluateJob):
            self.submit = self.submit.model_copy(update={"job": job.model_copy(update={"runs": self._rest(job)})})
        return found

    def check(self, event: Event, size: int = 0) -> Event:
        """Return an event with the names of here; Breach for one that does not belong to this job."""
        if size > SMALL and not isinstance(event, _LARGE):
            raise Breach(f"an event {event.type} of {size / 2**20:.1f} MiB")
        if getattr(event, "job_id", None) != self._job_id:
            raise Breach(f"an event {event.type} of a job that it was not given")
        event = safe(event)
        self.started = True
        match event:
            case Started() | Held() | Refined() | Done() | Log() | Progress():
                return event
            case RunStarted() | RunFinished() if isinstance(self._job, EvaluateJob):
                self._run_started = self._run(event.run)
                if isinstance(event, RunFinished) and self._missing[self._run_started]:
                    raise Breach("the end of a run whose measurements are missing")
                return event.model_copy(update={"run": self._run_started})
            case RunFailed():
                return event.model_copy(update={"run": self._run(event.run)})
            case Failed():
                run = None if event.run is None else self._run(event.run)
                return event.model_copy(update={"run": run, "engine_end": ""})
            case Partial():
                return self._take_unit(event, self._run_started)
            case Measured():
                mine = self._translation.back(event)
                if (point := mine.record.point.content_hash()) not in self._points:
                    raise Breach("a point that the sweep does not have")
                self._points.discard(point)
                return mine
            case Token() | CompletionFinished() if isinstance(self._job, GenerateJob):
                self._check_completion(event, self._job)
                return event
            case Result() if isinstance(event.value, RESULTS.get(type(self._job), ())):
                return self._translation.back(event)
            case _:
                raise Breach(f"an event {event.type}, which this job does not have")

    def _run(self, run: str) -> str:
        """Return the name here of a run there."""
        if run not in self._translation.runs:
            raise Breach("a run that it was not given")
        return self._translation.runs[run]

    def _take_unit(self, event: Partial, started: str) -> Partial:
        """Return a measurement of the run that has started, which must be missing."""
        run = self._run(event.unit.run)
        if run != started or event.unit.unit not in self._missing[run]:
            raise Breach("a measurement that it was not given, or one for the second time")
        self._missing[run].discard(event.unit.unit)
        return event.model_copy(update={"unit": event.unit.model_copy(update={"run": run})})

    def _rest(self, job: EvaluateJob) -> tuple[PendingRun, ...]:
        """Return the runs, as they are named there, with the measurements that have not come."""
        runs = []
        for run in job.runs:
            missing = self._missing[self._translation.runs[run.spec.content_hash()]]
            if units := tuple(unit for unit in run.units if unit in missing):
                runs.append(run.model_copy(update={"units": units}))
        return tuple(runs)

    def _check_completion(self, event: Token | CompletionFinished, job: GenerateJob) -> None:
        if not 0 <= event.configuration < len(job.configurations):
            raise Breach("a completion that it was not given")
        if isinstance(event, CompletionFinished) and len(event.tokens) > job.new_tokens:
            raise Breach("more tokens than it was asked for")


def check_idle(event: Event, size: int = 0) -> Event:
    """Return an event that an engine may send without a job; Breach for any other."""
    if (isinstance(event, Log) and event.job_id is None) or (isinstance(event, Ready) and size <= SMALL):
        return safe(event)
    raise Breach(f"an event {event.type} without a job")
