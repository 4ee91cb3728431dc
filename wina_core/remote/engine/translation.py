"""Paths and runs of a job on another machine: replaced on the way there, and put back on the way here."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from wina_core.errors import WinaError
from wina_core.jobs import EvaluateJob, Job
from wina_core.specs.machine import Machine, join_location, split_location

PATHS = frozenset(
    {"location", "source", "matrices", "folder", "file", "converter", "task_folders", "data_folder", "export_to"}
    | {"exported_to", "task_code"}
)
"""Fields of jobs and results that hold paths, among names that mean no path."""

M = TypeVar("M", bound=BaseModel)


class Translation:
    """Names of one job's files and runs on a machine."""

    def __init__(self, job: Job, machine: Machine) -> None:
        """Translate a job. Raises WinaError for a model on a third machine."""
        self._machine = machine
        self._paths: dict[str, str] = {}
        """Path here by the path there, of those in the job."""
        self.job: Job = with_paths(job, self._there)
        self.runs: dict[str, str] = {}
        """Hash of each run here by its hash there."""
        if isinstance(job, EvaluateJob) and isinstance(self.job, EvaluateJob):
            pairs = zip(self.job.runs, job.runs, strict=True)
            self.runs = {there.spec.content_hash(): here.spec.content_hash() for there, here in pairs}
            if len(self.runs) < len({run.spec.content_hash() for run in job.runs}):
                raise WinaError(f"Two of the job's models are the same one on {machine.name}; leave one of them out.")

    def back(self, message: M) -> M:
        """Return a message from there with the names of here; files that only it names belong to the machine."""
        return with_paths(message, self._here)

    def _there(self, path: str) -> str:
        name, own = split_location(path)
        if name is not None and name != self._machine.name:
            raise WinaError(f"{path} lies on another machine than {self._machine.name}, where the job is to run.")
        there = own if name is not None else self._machine.there(path)
        self._paths[there] = path
        return there

    def _here(self, path: str) -> str:
        if (here := self._paths.get(path)) is not None:
            return here
        here = self._machine.here(path)
        return join_location(self._machine.name, path) if here == path and path.startswith("/") else here


def with_paths(message: M, change: Callable[[str], str]) -> M:
    """Return a message with all its paths changed; itself where none is."""
    changes = {}
    for name in type(message).model_fields:
        value = getattr(message, name)
        changed = _paths_of(value, change) if name in PATHS else _inside(value, change)
        if changed is not value:
            changes[name] = changed
    return message.model_copy(update=changes) if changes else message


def _paths_of(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            changed = change(value)
            return value if changed == value else changed
        case tuple():
            return tuple(map(change, value))
        case Mapping():
            return {change(path): each for path, each in value.items()}
        case _:
            return _inside(value, change)


def _inside(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value with the paths of the messages in it changed; itself where none is."""
    if isinstance(value, BaseModel):
        return with_paths(value, change)
    if isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        changed = tuple(with_paths(each, change) if isinstance(each, BaseModel) else each for each in value)
        return value if all(new is old for new, old in zip(changed, value, strict=True)) else changed
    return value
