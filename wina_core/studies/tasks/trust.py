"""Consent to run the code of task folders: asked of the user once for each folder and content, given by no file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wina_core.errors import WinaError
from wina_core.jobs import PendingRun
from wina_core.studies.tasks.code_requests import code_requests
from wina_core.studies.tasks.consents import allow_code, allowed_code
from wina_core.studies.tasks.members import member_names
from wina_core.studies.tasks.task_folder import TaskFile, TaskFolder

FLAG = "--trust-task-code"
TASK_CODE_RISK = "This code runs with all of your rights; trust it only if you know where it comes from."
"""Shown with every request for consent to run the code of a task folder."""
_LISTED = 12


@dataclass(frozen=True)
class TaskCode:
    """Code that the tasks of a folder request."""

    folder: str
    digest: str
    requests: tuple[tuple[str, str], ...]
    """(file, line) of each value that asks for code."""
    files: Mapping[str, str]
    """Texts of the folder's Python files and of the task files that ask, by their path in the folder."""

    def refusal(self) -> str:
        """Return the sentences that refuse this code: what it is, and how to allow it."""
        lines = [f"{file}: {line}" for file, line in self.requests]
        more = [f"and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
        python = [name for name in self.files if name.endswith(".py")]
        refusal = (
            f"The task folder {self.folder} asks to run code, and this was not consented to: "
            f"{'; '.join(lines[:_LISTED] + more)}. Its Python files: {', '.join(python[:_LISTED]) or 'none'}. "
            f"Its digest: {self.digest[:16]}. {TASK_CODE_RISK} "
            f"Consent for one run with {FLAG}, or in the window, which asks."
        )
        return "".join(each if each.isprintable() else "?" for each in refusal)  # for a terminal


def requested_code(runs: Iterable[PendingRun]) -> tuple[TaskCode, ...]:
    """Return the code that the missing tasks of runs ask for, by folder; reads files and runs nothing.

    Raises WinaError for a task folder that cannot be read.
    """
    asked: dict[tuple[str, ...], set[str]] = {}
    for run in runs:
        evaluation = run.spec.evaluation
        wanted = set(evaluation.task_names) & set(run.units)
        if evaluation.task_folders and wanted:
            asked.setdefault(evaluation.task_folders, set()).update(wanted)
    found: dict[str, TaskCode] = {}
    for folders, names in asked.items():
        read = [TaskFolder(folder) for folder in folders]
        for code in code_of(read, _reached(read, names)):
            found[code.folder] = code
    return tuple(found.values())


def task_code(runs: Iterable[PendingRun], trusted: bool = False, machines: Iterable[str] = ()) -> dict[str, str]:
    """Return the digests of the task folders whose code may run: the stored consents, or with `trusted` all requested.

    A stored consent is one for each of the `machines`, which are those of the job.

    Raises WinaError for requested code without consent.
    """
    codes = requested_code(runs)
    allowed = {code.folder: code.digest for code in codes} if trusted else allowed_code(machines)
    check_allowed(codes, allowed)
    return {code.folder: code.digest for code in codes}


def code_of(folders: Sequence[TaskFolder], files: Iterable[TaskFile]) -> tuple[TaskCode, ...]:
    """Return the code that these files of the folders ask for, by folder."""
    wanted = {file.path: lines for file in files if (lines := code_requests(file))}
    return tuple(
        TaskCode(
            folder=str(folder.path),
            digest=folder.digest,
            requests=tuple((_name(folder, path), line) for path in asking for line in wanted[path]),
            files={
                name: content.decode("utf-8", "replace")
                for name, content in folder.files.items()
                if name.endswith(".py") or folder.path / name in asking
            },
        )
        for folder in folders
        if (asking := [path for path in wanted if path.is_relative_to(folder.path)])
    )


def allow(codes: Iterable[TaskCode], machines: Iterable[str] = ()) -> None:
    """Store the user's consent to these contents of these folders on machines, as `allow_code`."""
    allow_code({code.folder: code.digest for code in codes}, machines)


def not_allowed(codes: Iterable[TaskCode], allowed: Mapping[str, str]) -> tuple[TaskCode, ...]:
    """Return the code without consent."""
    return tuple(code for code in codes if allowed.get(code.folder) != code.digest)


def check_allowed(codes: Iterable[TaskCode], allowed: Mapping[str, str]) -> None:
    """Raise WinaError for code without consent."""
    refused = not_allowed(codes, allowed)
    if refused:
        raise WinaError(" ".join(code.refusal() for code in refused))


def _reached(folders: Sequence[TaskFolder], names: Iterable[str]) -> list[TaskFile]:
    """Return the folders' files that the names may select.

    A name that no file defines is lm-eval's; any task of the folders may replace one of its members.
    """
    by_name: dict[str, list[TaskFile]] = {}
    for file in (file for folder in folders for file in folder.tasks):
        for name in _defined(file.config):
            by_name.setdefault(name, []).append(file)
    reached: dict[Path, TaskFile] = {}
    left = list(names)
    while left:
        name = left.pop()
        files = by_name.get(name)
        for file in [each for known in by_name.values() for each in known] if files is None else files:
            if file.path not in reached:
                reached[file.path] = file
                left += member_names(file.config)
    return list(reached.values())


def _defined(config: Mapping[str, Any]) -> list[str]:
    tags = config.get("tag") or ()
    own = config.get("group") if "group" in config and "class" not in config else config.get("task")
    return [str(name) for name in (own, *([tags] if isinstance(tags, str) else tags)) if isinstance(name, str)]


def _name(folder: TaskFolder, path: Path) -> str:
    return path.relative_to(folder.path).as_posix()
