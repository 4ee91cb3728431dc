"""A job as another machine computes it, and the check of its events: what was not requested fails that job."""

from pathlib import PurePath

from wina_core.errors import WinaError
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
from wina_core.remote.content import Breach, safe
from wina_core.remote.paths import requested_path, to_local, to_remote, written_path
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
MAX_SMALL_EVENT = 2**18
"""Bytes of the longest event that brings no result and cannot be shortened."""
_LARGE = (Partial, Measured, CompletionFinished, Result, Log, Failed, RunFailed)


class RemoteJob:
    """A job that another machine computes, and the results that may still come."""

    def __init__(self, submit: Submit, machine: Machine) -> None:
        """Take a job with the names of this computer. Raises WinaError for one that the machine cannot have."""
        self._machine = machine
        self._job_id, self._job = submit.job_id, submit.job
        job, self._local_paths = to_remote(submit.job, machine)
        self.submit = submit.model_copy(update={"job": job})
        """The job with the names of the machine."""
        self._runs = _local_runs(submit.job, self.submit.job, machine)
        """Hash of each run by its hash on the machine: paths are part of a run's identity."""
        self._missing: dict[str, set[str]] = {}
        """Units of each run that have not come."""
        if isinstance(submit.job, EvaluateJob):
            self._missing = {run.spec.content_hash(): set(run.units) for run in submit.job.runs}
        self._run_started = ""
        self._points: set[str] = set()
        """Hashes of a sweep's points that may come."""
        if isinstance(submit.job, LatencyJob | DecodeJob):
            self._points |= submit.job.spec.hashes()

    def check(self, event: Event, size: int) -> Event:
        """Return an event with the names of this computer; Breach for one that does not belong to this job."""
        if size > MAX_SMALL_EVENT and not isinstance(event, _LARGE):
            raise Breach(f"an event {event.type} of {size / 2**20:.1f} MiB")
        if getattr(event, "job_id", None) != self._job_id:
            raise Breach(f"an event {event.type} of another job")
        event = safe(event)
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
                mine = to_local(event, self._machine, self._local_paths)
                if (point := mine.record.point.content_hash()) not in self._points:
                    raise Breach("a point that the sweep does not have")
                self._points.discard(point)
                return mine
            case Token() | CompletionFinished() if isinstance(self._job, GenerateJob):
                self._check_completion(event, self._job)
                return event
            case Result() if isinstance(event.value, RESULTS.get(type(self._job), ())):
                result = to_local(event, self._machine, self._local_paths)
                if PurePath(written_path(result.value)) != PurePath(requested_path(self._job)):
                    raise Breach("the path of a file that was not requested")
                return result
            case _:
                raise Breach(f"an event {event.type}, which this job does not have")

    def _run(self, run: str) -> str:
        """Return the hash of a run of the machine."""
        if run not in self._runs:
            raise Breach("a run that was not requested")
        return self._runs[run]

    def _take_unit(self, event: Partial, started: str) -> Partial:
        """Return a measurement of the run that has started, which must be missing."""
        run = self._run(event.unit.run)
        if run != started or event.unit.unit not in self._missing[run]:
            raise Breach("a measurement that was not requested, or one for the second time")
        if written_path(event.rotation):
            raise Breach("the path of a file that was not requested")
        self._missing[run].discard(event.unit.unit)
        rotation = event.rotation and to_local(event.rotation, self._machine, self._local_paths)
        return event.model_copy(update={"unit": event.unit.model_copy(update={"run": run}), "rotation": rotation})

    def _check_completion(self, event: Token | CompletionFinished, job: GenerateJob) -> None:
        if not 0 <= event.configuration < len(job.configurations):
            raise Breach("a completion that was not requested")
        if isinstance(event, CompletionFinished) and len(event.tokens) > job.new_tokens:
            raise Breach("more tokens than were requested")


def _local_runs(job: Job, remote: Job, machine: Machine) -> dict[str, str]:
    if not (isinstance(job, EvaluateJob) and isinstance(remote, EvaluateJob)):
        return {}
    pairs = zip(remote.runs, job.runs, strict=True)
    runs = {there.spec.content_hash(): here.spec.content_hash() for there, here in pairs}
    if len(runs) < len({run.spec.content_hash() for run in job.runs}):
        raise WinaError(f"Two of the job's models are the same one on {machine.name}; leave one of them out.")
    return runs


def check_idle(event: Event, size: int) -> Event:
    """Return an event that an engine may send without a job; Breach for any other."""
    if (isinstance(event, Log) and event.job_id is None) or (isinstance(event, Ready) and size <= MAX_SMALL_EVENT):
        return safe(event)
    raise Breach(f"an event {event.type} without a job")
