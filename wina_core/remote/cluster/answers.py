"""Answers to requests about array jobs, on the machine that reaches the queue.

The files of an array are in a folder of the data folder, which the cluster's machines share:
`elements/INDEX.json`, `results/INDEX.jsonl`, `logs/`, and `job`, Slurm's number.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.files.own_command import own_command
from wina_core.files.paths import data_folder
from wina_core.files.tables import write_atomically
from wina_core.remote.cluster.lines import open_own, read_lines
from wina_core.remote.cluster.requests import (
    ArrayAnswer,
    ArrayDone,
    ArrayLook,
    ArrayRequest,
    ArraySubmitted,
    CancelArray,
    Lines,
    LogTail,
    LookAtArray,
    RemoveArray,
    RequeueElements,
    SubmitArray,
    TailLog,
)
from wina_core.remote.cluster.slurm import queue
from wina_core.remote.cluster.slurm.submitting import submit_array

_BUDGET = 2**22
"""Bytes of results in one answer, if no line is longer."""
_TAIL = 2**14


def answer(request: ArrayRequest) -> ArrayAnswer:
    """Do what a request asks for. Raises WinaError, also for an array that is not here."""
    match request:
        case SubmitArray():
            return _submit(request)
        case LookAtArray():
            return _look(request)
        case CancelArray():
            queue.cancel(_job(request.array))
            return ArrayDone()
        case RequeueElements():
            return ArrayDone(refused=queue.requeue(_job(request.array), request.elements))
        case TailLog():
            return LogTail(text=_tail(_folder(request.array) / "logs", _job(request.array), request.element))
        case RemoveArray():
            shutil.rmtree(_folder(request.array), ignore_errors=True)
            return ArrayDone()


def _folder(array: str) -> Path:
    return data_folder() / "arrays" / array


def _submit(request: SubmitArray) -> ArraySubmitted:
    """Write the elements' files and submit the array; a request that is repeated changes nothing."""
    folder = _folder(request.array)
    if (folder / "job").is_file():
        return ArraySubmitted(job=_job(request.array))
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # an element runs whatever its file says
        for part in ("elements", "results", "logs"):
            (folder / part).mkdir(exist_ok=True)
        for index, element in enumerate(request.elements):
            write_atomically(folder / "elements" / f"{index}.json", element.model_dump_json().encode(), private=True)
    except OSError as error:
        raise WinaError(f"The files of the array cannot be written to {folder} ({error.strerror}).") from error
    command = (*own_command("wina_core.cli"), "cluster", "element", str(folder))
    try:
        job = submit_array(command, len(request.elements), request.settings, folder / "logs")
    except WinaError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    write_atomically(folder / "job", job.encode(), private=True)
    return ArraySubmitted(job=job)


def _job(array: str) -> str:
    try:
        return (_folder(array) / "job").read_text(encoding="ascii").strip()
    except OSError as error:
        raise WinaError(f"The array {array} is not known on this machine; its folder is gone.") from error


def _look(request: LookAtArray) -> ArrayLook:
    job, folder = _job(request.array), _folder(request.array)
    count = sum(1 for _ in (folder / "elements").iterdir())
    states = queue.element_states(job, count)  # before the results: what has ended then has written all
    return ArrayLook(states=states, lines=_lines(folder / "results", request.offsets))


def _lines(folder: Path, offsets: Mapping[int, int]) -> dict[int, Lines]:
    found: dict[int, Lines] = {}
    left = _BUDGET
    for index, offset in offsets.items():
        if left <= 0:
            break
        try:
            content = read_lines(folder / f"{index}.jsonl", offset, left)
        except (OSError, WinaError) as error:
            found[index] = Lines(text="", end=offset, fault=str(error))
            continue
        if content:
            found[index] = Lines(text=content.decode(errors="replace"), end=offset + len(content))
            left -= len(content)
    return found


def _tail(folder: Path, job: str, element: int) -> str:
    try:
        with open_own(folder / f"{job}_{element}_0_log.out") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            return file.read(_TAIL).decode(errors="replace")
    except FileNotFoundError:
        return ""
