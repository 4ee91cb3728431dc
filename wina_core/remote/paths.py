"""Paths of a job, which are those of this computer, and of its results, which are those of a machine."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, TypeVar

from pydantic import BaseModel

from wina_core.errors import WinaError
from wina_core.jobs import ExportGgufJob, ExportModelJob, Job, RotateJob
from wina_core.records import ExportRecord, GgufRecord, RotationReport
from wina_core.specs.machine import Machine

PATHS = frozenset(
    {"location", "source", "matrices", "folder", "file", "converter", "task_folders", "data_folder", "export_to"}
    | {"exported_to", "task_code"}
)
"""Fields of jobs and results that hold paths, among names that mean no path."""

M = TypeVar("M", bound=BaseModel)


def to_remote(job: Job, machine: Machine) -> tuple[Job, dict[str, str]]:
    """Return a job with the paths of a machine, and each of its paths here by that there.

    Raises WinaError for a path in no mapped folder.
    """
    local: dict[str, str] = {}

    def change(path: str) -> str:
        if not PurePath(path).is_absolute():  # a hub id, "demo", a shipped text
            return path
        if (there := machine.to_remote(path)) is None:
            if ".." in PurePath(path).parts:
                raise WinaError(f'{path} has a part ".."; give the path without it.')
            parent = str(PurePath(path).parent)
            copy = shlex.join(["rsync", "-a", path, f"{machine.host}:FOLDER/"])
            raise WinaError(
                f"{path} is not in a folder that is mapped to {machine.name}; copy it there ({copy}), then map its "
                f"folder: wina machines add {machine.host} --folder {shlex.quote(parent)}=FOLDER."
            )
        local[there] = path
        return there

    return with_paths(job, change), local


def to_local(message: M, machine: Machine, local: Mapping[str, str]) -> M:
    """Return a message of a machine with the paths of this computer; a path in no mapped folder stays as it is.

    `local` has the job's own paths. They must come back as they were, and mapped folders inside each other are
    ambiguous on the way back.
    """
    return with_paths(message, lambda path: local.get(path) or machine.to_local(path))


def copy_command(value: object, machine: Machine) -> str:
    """Return the command that copies here what a job has written on a machine; empty for other results."""
    path = written_path(value)
    there = machine.to_remote(path) if path else None
    if there is None:
        return ""
    return shlex.join(["rsync", "-a", f"{machine.host}:{there}", f"{PurePath(path).parent}/"])


def written_path(value: object) -> str:
    """Return the path of the file or folder that a result says was written; empty for other results."""
    match value:
        case ExportRecord():
            return value.folder
        case RotationReport():
            return value.exported_to or ""
        case GgufRecord():
            return value.file
    return ""


def requested_path(job: Job) -> str:
    """Return the path of the file or folder that a job writes; empty for other jobs."""
    match job:
        case ExportModelJob():
            return job.folder
        case RotateJob():
            return job.export_to or ""
        case ExportGgufJob():
            return job.file
    return ""


def with_paths(message: M, change: Callable[[str], str]) -> M:
    """Return a message with all its paths changed; itself where none is."""
    changes = {}
    for name in type(message).model_fields:
        value = getattr(message, name)
        changed = _changed_paths(value, change) if name in PATHS else _changed_inside(value, change)
        if changed is not value:
            changes[name] = changed
    return message.model_copy(update=changes) if changes else message


def _changed_paths(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            changed = change(value)
            return value if changed == value else changed
        case tuple():
            return tuple(map(change, value))
        case Mapping():
            return {change(path): content for path, content in value.items()}
        case _:
            return _changed_inside(value, change)


def _changed_inside(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value with the paths of the messages in it changed; itself where none is."""
    if isinstance(value, BaseModel):
        return with_paths(value, change)
    if isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        changed = tuple(with_paths(part, change) if isinstance(part, BaseModel) else part for part in value)
        return value if all(new is old for new, old in zip(changed, value, strict=True)) else changed
    return value
