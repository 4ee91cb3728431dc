"""The answering side of `wina remote ask`: questions as lines on stdin, one answer each on stdout."""

import os
import platform
import secrets
import subprocess
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from wina_core.errors import WinaError, explain
from wina_core.files.disk import free_on_disk
from wina_core.files.memory import machine_memory
from wina_core.files.paths import cache_folder, data_folder
from wina_core.files.version import PROTOCOL, __version__
from wina_core.model_info.resolve import GGUF_SUFFIX, resolve
from wina_core.remote.cluster.answers import answer as answer_array
from wina_core.remote.cluster.requests import ArrayRequest
from wina_core.remote.machines.messages import (
    MOST_FOLDERS,
    MOST_LINE,
    Answer,
    Device,
    Echo,
    Echoed,
    FolderEntry,
    FolderListing,
    FolderQuestion,
    MachineFacts,
    ModelQuestion,
    Nothing,
    Question,
    ResolvedModel,
)

_PATIENCE_SECONDS = 5.0
"""Timeout of nvidia-smi."""
_MIB = 2**20


def describe(_: Nothing) -> MachineFacts:
    """Return the program and the hardware of this machine, without torch."""
    free, total = machine_memory()
    data, cache = data_folder(), cache_folder()
    return MachineFacts(
        program=__version__,
        protocol=PROTOCOL,
        python=platform.python_version(),
        system=platform.platform()[:500],
        host=platform.node()[:500],
        home=str(Path.home()),
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_total=int(total),
        memory_free=max(0, int(free)),
        devices=_devices(),
        data_folder=str(data),
        data_free=free_on_disk(data),
        cache_folder=str(cache),
        cache_free=free_on_disk(cache),
    )


def _devices() -> tuple[Device, ...]:
    command = ["nvidia-smi", "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        listing = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):  # no driver, or one that does not answer
        return ()
    return parse_devices(listing)


def parse_devices(listing: str) -> tuple[Device, ...]:
    """Return the devices in the output of nvidia-smi, whose sizes are MiB; lines without sizes are left out."""
    found = []
    for line in listing.splitlines():
        with suppress(ValueError):
            name, total, free = line.rsplit(",", 2)
            sizes = {"memory_total": int(total) * _MIB, "memory_free": int(free) * _MIB}
            found.append(Device(name=name.strip(), **sizes))
    return tuple(found)


def list_folder(question: FolderQuestion) -> FolderListing:
    """Return the folders and GGUF files in a folder; WinaError where it cannot be read."""
    folder = Path(question.path).expanduser()
    try:
        folder = folder.resolve(strict=True)
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith(".") and _is_listed(entry))
    except (OSError, ValueError, RuntimeError) as error:
        cause = getattr(error, "strerror", None) or error
        raise WinaError(f"The folder {question.path} cannot be listed ({cause}); check its path.") from error
    listed = tuple(_entry(folder / name) for name in islice(names, MOST_FOLDERS))
    return FolderListing(
        path=str(folder), is_model=_is_model(folder), folders=listed, truncated=len(names) > MOST_FOLDERS
    )


def _is_listed(entry: "os.DirEntry[str]") -> bool:
    try:
        entry.name.encode()
        return entry.is_dir() or (entry.name.lower().endswith(GGUF_SUFFIX) and entry.is_file())
    except (OSError, UnicodeEncodeError):
        return False


def _is_model(folder: Path) -> bool:
    with suppress(OSError):
        return (folder / "config.json").is_file()
    return False


def _entry(folder: Path) -> FolderEntry:
    with suppress(OSError):
        if folder.is_file():
            return FolderEntry(name=folder.name, is_model=True, size=folder.stat().st_size)
    if not _is_model(folder):
        return FolderEntry(name=folder.name, is_model=False)
    size = 0
    with suppress(OSError):
        size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return FolderEntry(name=folder.name, is_model=True, size=size)


def resolve_model(question: ModelQuestion) -> ResolvedModel:
    """Return a model with absolute path and fingerprint; WinaError where there is none."""
    return ResolvedModel(model=resolve(question.model))


def echo(question: Echo) -> Echoed:
    """Return the length of a text and random text of the requested length, which no compression shortens much."""
    return Echoed(received=len(question.text), text=secrets.token_urlsafe(question.reply)[: question.reply])


class Operation(NamedTuple):
    """A kind of question and the function that answers it."""

    question: type[BaseModel]
    answer: Callable[[Any], BaseModel]


OPERATIONS = {
    "describe": Operation(Nothing, describe),
    "list_folder": Operation(FolderQuestion, list_folder),
    "resolve_model": Operation(ModelQuestion, resolve_model),
    "echo": Operation(Echo, echo),
    **{kind.model_fields["type"].default: Operation(kind, answer_array) for kind in get_args(ArrayRequest)},
}
"""All operations by name."""


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer each line until the end of the questions."""
    while line := questions.readline(MOST_LINE + 1):
        answer = _refusal("The question is too long.") if len(line) > MOST_LINE else _answer(line)
        answers.write(answer.model_dump_json(exclude_defaults=True).encode() + b"\n")
        answers.flush()
        if len(line) > MOST_LINE:  # the rest of it would be taken for further questions
            return


def _answer(line: bytes) -> Answer:
    try:
        question = Question.model_validate_json(line)
        if question.protocol != PROTOCOL:
            return _refusal(f"The question has protocol {question.protocol} instead of {PROTOCOL}.")
        operation = OPERATIONS.get(question.operation)
        if operation is None:
            return _refusal(f'There is no operation "{question.operation}"; update wina on the machine.')
        answered = operation.answer(operation.question.model_validate(question.arguments))
        return Answer(wina_answer=PROTOCOL, program=__version__, result=answered.model_dump(mode="json"))
    except ValidationError as error:
        return _refusal(explain(error))
    except WinaError as error:
        return _refusal(str(error))


def _refusal(error: str) -> Answer:
    return Answer(wina_answer=PROTOCOL, program=__version__, error=error[:4000])
