"""A job as another machine computes it: its paths there, and the check of its events.

Results that were not requested, and numbers that no database holds, fail the job. Control characters are removed.
"""

import math
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, TypeVar

from pydantic import BaseModel

from wina_core.errors import WinaError, printable
from wina_core.jobs import (
    CompletionFinished,
    DecodeJob,
    Done,
    EvaluateJob,
    Event,
    ExportGgufJob,
    ExportModelJob,
    Failed,
    GenerateJob,
    Held,
    Job,
    LatencyJob,
    Log,
    Measured,
    Message,
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
from wina_core.records import ExportRecord, GgufRecord, RotationReport
from wina_core.specs.machine import Machine

Model = TypeVar("Model", bound=BaseModel)
M = TypeVar("M", bound=Message)
PATHS = frozenset(
    {"location", "source", "matrices", "folder", "file", "converter", "task_folders", "data_folder", "export_to"}
    | {"exported_to", "task_code"}
)
"""Fields of jobs and results that hold paths, among names that mean no path."""
_REQUESTED: dict[type, str] = {ExportModelJob: "folder", RotateJob: "export_to", ExportGgufJob: "file"}
_WRITTEN: dict[type, str] = {ExportRecord: "folder", RotationReport: "exported_to", GgufRecord: "file"}
"""Field with the path of what is written, of jobs and of their results."""
_LONGEST_WORD, _LONGEST_SENTENCE, _LONGEST_TEXT = 1000, 3000, 2**16
_MOST = 1e15
"""Largest amount of progress, and of seconds."""


def to_remote(job: Job, machine: Machine) -> tuple[Job, dict[str, str]]:
    """Return a job with the paths of a machine, and its local paths by the remote ones.

    Raises WinaError for a path in no mapped folder.
    """
    local: dict[str, str] = {}

    def change(path: str) -> str:
        if not PurePath(path).is_absolute():  # a hub id, "demo", a shipped text
            return path
        if (remote_path := machine.to_remote(path)) is None:
            parent = str(PurePath(path).parent)
            copy = shlex.join(["rsync", "-a", path, f"{machine.host}:FOLDER/"])
            raise WinaError(
                f'{path} is not in a folder that is mapped to {machine.name}, or has a part ".."; copy it there '
                f"({copy}), then map its folder: wina machines add {machine.host} --folder "
                f"{shlex.quote(parent)}=FOLDER."
            )
        local[remote_path] = path
        return remote_path

    return _with_paths(job, change), local


def to_local(message: Model, machine: Machine, local: Mapping[str, str]) -> Model:
    """Return a message of a machine with the paths of this computer; a path in no mapped folder stays as it is.

    `local` has the job's own paths. They must come back as they were, and mapped folders inside each other are
    ambiguous on the way back.
    """
    return _with_paths(message, lambda path: local.get(path) or machine.to_local(path))


def copy_command(value: object, machine: Machine) -> str:
    """Return the command that copies here what a job has written on a machine; empty for other results."""
    path = _path(value, _WRITTEN)
    remote_path = machine.to_remote(path) if path else None
    if remote_path is None:
        return ""
    return shlex.join(["rsync", "-a", f"{machine.host}:{remote_path}", f"{PurePath(path).parent}/"])


def _path(value: object, fields: Mapping[type, str]) -> str:
    path: str | None = getattr(value, fields.get(type(value), ""), None)
    return path or ""


def _with_paths(message: Model, change: Callable[[str], str]) -> Model:
    return type(message).model_validate(_changed(message.model_dump(), change))


def _changed(value: Any, change: Callable[[str], str], *, are_paths: bool = False) -> Any:
    match value:
        case str() if are_paths:
            return change(value)
        case dict() if are_paths:  # task folders and the digests of their code
            return {change(path): content for path, content in value.items()}
        case dict():
            return {name: _changed(member, change, are_paths=name in PATHS) for name, member in value.items()}
        case list() | tuple():
            return [_changed(member, change, are_paths=are_paths) for member in value]
    return value


# ---- the check of events ---------------------------------------------------------------------------------------------


class Breach(WinaError):  # noqa: N818 - read with "raises"
    """A rule that another machine broke. Its message is the object of "sent"."""


def safe(event: M) -> M:
    """Return an event whose texts can be shown and whose numbers can be stored.

    Raises Breach for NaN and numbers that are too large, and for a name that cannot be shown; longer texts are cut.
    """
    changes: dict[str, str] = {}
    match event:
        case Log():
            changes["text"] = _readable_lines(event.text)
        case Progress():
            amounts = [amount for amount in (event.done, event.total, event.eta_seconds) if amount is not None]
            if not all(0.0 <= amount <= _MOST for amount in amounts):
                raise Breach("progress that is no amount")
            changes = {name: printable(getattr(event, name))[:_LONGEST_WORD] for name in ("unit", "metric", "stage")}
        case Failed() | RunFailed():
            changes = {"error": printable(event.error[:_LONGEST_SENTENCE]), "detail": _readable_lines(event.detail)}
        case Ready():
            for environment in (event.environment, *event.timing):
                _check_names(
                    (environment.device, environment.hardware, *environment.versions, *environment.versions.values())
                )
        case Partial():
            if not 0.0 <= event.unit.seconds <= _MOST:
                raise Breach("a time that is none")
            _check_names(name for metric in event.unit.metrics for name in (metric.task, metric.metric))
            _check_names(name for layer in event.unit.layers for name in (layer.projection, layer.metric))
    if isinstance(event, Partial | Measured | CompletionFinished | Result) and not _is_storable(
        event.model_dump(), nan=not isinstance(event, Measured)
    ):
        raise Breach("a number that is none, or too large")
    return event.model_copy(update=changes)


def _check_names(names: Iterable[str]) -> None:
    if not all(name.isprintable() and len(name) <= _LONGEST_WORD for name in names):
        raise Breach("a name that cannot be shown")


def _is_storable(value: object, nan: bool) -> bool:
    """Return whether a database holds all numbers of a value; `nan` allows NaN."""
    match value:
        case dict():
            return all(_is_storable(member, nan) for member in value.values())
        case list() | tuple():
            return all(_is_storable(member, nan) for member in value)
        case float():
            return nan or not math.isnan(value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63  # SQLite's integers


def _readable_lines(text: str) -> str:
    return "\n".join(map(printable, text[-_LONGEST_TEXT:].split("\n")))


class RemoteJob:
    """A job that another machine computes, and the results that may still come."""

    def __init__(self, submit: Submit, machine: Machine) -> None:
        """Take a job with the names of this computer. Raises WinaError for one that the machine cannot have."""
        self._machine = machine
        self._job_id, self._job = submit.job_id, submit.job
        job, self._local_paths = to_remote(submit.job, machine)
        self.submit = submit.model_copy(update={"job": job})
        """The job with the names of the machine."""
        self._runs: dict[str, str] = {}
        """Hash of each run by its hash on the machine: paths are part of a run's identity."""
        self._missing: dict[str, set[str]] = {}
        """Units of each run that have not come."""
        if isinstance(submit.job, EvaluateJob) and isinstance(job, EvaluateJob):
            self._missing = {run.spec.content_hash(): set(run.units) for run in submit.job.runs}
            pairs = zip(job.runs, submit.job.runs, strict=True)
            self._runs = {remote.spec.content_hash(): run.spec.content_hash() for remote, run in pairs}
            if len(self._runs) < len(self._missing):
                raise WinaError(f"Two of the job's models are the same one on {machine.name}; leave one of them out.")
        self._run_started = ""
        self._points: set[str] = set()
        """Hashes of a sweep's points that may come."""
        if isinstance(submit.job, LatencyJob | DecodeJob):
            self._points |= submit.job.spec.hashes()

    def check(self, event: Event) -> Event:
        """Return an event with the names of this computer; Breach for one that does not belong to this job."""
        if getattr(event, "job_id", None) != self._job_id:
            raise Breach(f"an event {event.type} of another job")
        event = safe(event)
        match event:
            case Started() | Held() | Refined() | Done() | Log() | Progress():
                return event
            case RunStarted() | RunFinished():
                self._run_started = self._run(event.run)
                if isinstance(event, RunFinished) and self._missing[self._run_started]:
                    raise Breach("the end of a run whose measurements are missing")
                return event.model_copy(update={"run": self._run_started})
            case RunFailed():
                return event.model_copy(update={"run": self._run(event.run)})
            case Failed():
                run = None if event.run is None else self._run(event.run)
                # The client that started the engine is the only one to say how it ended.
                return event.model_copy(update={"run": run, "engine_end": ""})
            case Partial():
                return self._take_unit(event)
            case Measured():
                mine = to_local(event, self._machine, self._local_paths)
                if (point := mine.record.point.content_hash()) not in self._points:
                    raise Breach("a point that the sweep does not have")
                self._points.discard(point)
                return mine
            case Token() | CompletionFinished() if isinstance(self._job, GenerateJob):
                if not 0 <= event.configuration < len(self._job.configurations):
                    raise Breach("a completion that was not requested")
                if isinstance(event, CompletionFinished) and len(event.tokens) > self._job.new_tokens:
                    raise Breach("more tokens than were requested")
                return event
            case Result():
                result = to_local(event, self._machine, self._local_paths)
                # The window opens this path and the log names it: a machine must not choose it.
                if PurePath(_path(result.value, _WRITTEN)) != PurePath(_path(self._job, _REQUESTED)):
                    raise Breach("the path of a file that was not requested")
                return result
            case _:
                raise Breach(f"an event {event.type}, which this job does not have")

    def _run(self, run: str) -> str:
        """Return the hash of a run of the machine."""
        if run not in self._runs:
            raise Breach("a run that was not requested")
        return self._runs[run]

    def _take_unit(self, event: Partial) -> Partial:
        """Return a measurement of the run that has started, which must be missing."""
        run = self._run(event.unit.run)
        if run != self._run_started or event.unit.unit not in self._missing[run]:
            raise Breach("a measurement that was not requested, or one for the second time")
        if _path(event.rotation, _WRITTEN):
            raise Breach("the path of a file that was not requested")
        self._missing[run].discard(event.unit.unit)
        rotation = event.rotation and to_local(event.rotation, self._machine, self._local_paths)
        return event.model_copy(update={"unit": event.unit.model_copy(update={"run": run}), "rotation": rotation})


def check_idle(event: Event) -> Event:
    """Return an event that an engine may send without a job; Breach for any other."""
    if isinstance(event, Ready) or (isinstance(event, Log) and event.job_id is None):
        return safe(event)
    raise Breach(f"an event {event.type} without a job")
