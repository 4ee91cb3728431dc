"""Files of tensors in the cache: written atomically, computed by one engine while others wait, and finished stages of a
long computation, from which an interrupted one continues bit for bit.

A stage is one safetensors file in the computation's folder. The state of Adam is one, from which a descent continues.
"""

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock
import psutil  # type: ignore[import-untyped]
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from wina_core.compute.reporter import NullReporter, Reporter
from wina_core.errors import WinaError
from wina_core.files.hardware import check_room


def save_atomically(tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a file under another name, and rename it once it is written; make its folder.

    The other name is its own: several engines may find the same tensors. Raises OSError or SafetensorError, and leaves
    the earlier file and nothing else.
    """
    temporary = path.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(dict(tensors), temporary, dict(metadata) if metadata else None)
        temporary.replace(path)
    finally:
        with suppress(OSError):  # renamed already, or the first error is the one to report
            temporary.unlink()


_WAIT_SECONDS = 0.2  # short, so that a cancellation is seen between two attempts


@contextmanager
def alone(file: Path, subject: str, reporter: Reporter) -> Iterator[None]:
    """Hold the lock of a file or folder of the cache within the block; make its parent.

    While another engine has it, progress says that it computes `subject`, such as "the rotated weights". Raises
    Cancelled, and WinaError if the folder cannot be written.
    """
    lock = filelock.FileLock(file.with_suffix(".lock"))
    while True:
        reporter.check()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            # In short waits, so that a cancellation takes effect.
            lock.acquire(timeout=_WAIT_SECONDS)
            break
        except filelock.Timeout:
            reporter.progress(0, None, "", f"another engine computes {subject}")
        except OSError as error:
            raise WinaError(f"{file.parent} cannot be written ({error.strerror}), which {subject} need.") from error
    try:
        yield
    finally:
        lock.release()


_KEY, _NOTE = "computation", "note"
"""Keys in a stage's metadata."""
_WRITER = "process"
"""Key of the id of the process that wrote a stage, in its note."""
_SPARE = 1e9
"""Bytes that a checkpoint leaves free on the disk, for results."""


def this_process() -> int:
    return os.getpid()


@dataclass(frozen=True)
class Stage:
    """The content of one stage."""

    tensors: dict[str, Tensor]
    """On the CPU."""
    note: dict[str, Any]
    """JSON."""


@dataclass(eq=False)
class Stages:
    """The folder of a computation's stages, named by a hash of all that its result depends on.

    Without a folder, nothing is kept.
    """

    reporter: Reporter = field(default_factory=NullReporter)
    folder: Path | None = None
    _failed: bool = field(default=False, init=False)
    """True once a stage could not be written."""

    def read(self, name: str) -> Stage | None:
        """Return a stage; None if it is missing, damaged, or another computation's."""
        if self.folder is None or not (file := self._file(name)).exists():
            return None
        try:
            with safe_open(file, framework="pt") as content:
                metadata = content.metadata() or {}
                if metadata.get(_KEY) != self.folder.name:
                    return None
                return Stage({key: content.get_tensor(key) for key in content.keys()}, json.loads(metadata[_NOTE]))  # noqa: SIM118
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            self.warn_of_damage(file, error)
            return None

    def warn_of_damage(self, file: Path, error: Exception) -> None:
        self.reporter.log("warning", f"A part is computed again, since {file} is damaged: {error}")

    def write(self, name: str, tensors: Mapping[str, Tensor], **note: Any) -> None:
        """Keep a stage; a full disk only loses the ability to continue."""
        if self.folder is None or self._failed:
            return
        content = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        try:
            size = sum(tensor.nbytes for tensor in content.values())
            check_room(self.folder, size + _SPARE, "With what stays free, a checkpoint takes", "free some space")
            save_atomically(
                content, self._file(name), {_KEY: self.folder.name, _NOTE: json.dumps(note | {_WRITER: this_process()})}
            )
        except (OSError, SafetensorError, WinaError) as error:
            self.reporter.log("warning", f"This could not continue from here if it ended now: {error}")
            self._failed = True

    def part(self, name: str) -> "Stages":
        return Stages(self.reporter, None if self.folder is None else self.folder / name)

    def names(self, start: str) -> list[str]:
        files = [] if self.folder is None else self.folder.glob(f"{start}*.safetensors")  # not those being written
        return sorted(file.stem for file in files)

    def left_behind(self) -> list[str]:
        """Return the names of the stages whose processes have ended."""
        stages = [(name, self.read(name)) for name in self.names("")]
        return [name for name, stage in stages if stage and not psutil.pid_exists(int(stage.note.get(_WRITER, 0)))]

    def remove(self, names: Iterable[str]) -> None:
        """Remove some stages, and the folder if nothing else is in it."""
        if self.folder is None:
            return
        with suppress(OSError):  # what is left is removed as abandoned
            for name in names:
                self._file(name).unlink(missing_ok=True)
            self.folder.rmdir()

    def discard(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name.replace(' ', '-')}.safetensors"


SAVING_SECONDS = 60.0
"""Time between two states on disk."""
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""Adam's state of each parameter."""


def adam_state(free: Sequence[Tensor], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the parameters with their moments at the beginning of a step."""
    moments: dict[int, dict[str, Tensor]] = optimizer.state_dict()["state"]
    state = {f"free.{index}": parameter.detach() for index, parameter in enumerate(free)}
    return state | {f"{name}.{index}": moment[name] for index, moment in moments.items() for name in _MOMENTS}


def restore_adam(stage: Stage, free: Sequence[Tensor], optimizer: torch.optim.Optimizer, schedule: Any) -> None:
    """Restore a state that was kept with the `schedule` of the rates.

    Raises KeyError, TypeError, ValueError or RuntimeError for a state that does not fit.
    """
    for index, parameter in enumerate(free):
        for name in ("free", "exp_avg", "exp_avg_sq"):
            tensor = stage.tensors[f"{name}.{index}"]
            if tensor.shape != parameter.shape or not tensor.isfinite().all():
                raise ValueError(f"{name} has another shape, or numbers that none can have")
    # Checked before the parameters are written, so that a state that does not fit leaves them as they are.
    if stage.note["schedule"]["last_epoch"] not in range(schedule.T_max + 1):
        raise ValueError("the schedule has another length")
    with torch.no_grad():
        for index, parameter in enumerate(free):
            parameter.copy_(stage.tensors[f"free.{index}"])
    moments = {index: {name: stage.tensors[f"{name}.{index}"] for name in _MOMENTS} for index in range(len(free))}
    schedule.load_state_dict(stage.note["schedule"])
    groups = optimizer.state_dict()["param_groups"]
    for group, rate in zip(groups, schedule.get_last_lr(), strict=True):
        # The schedule itself would set the rates only at its next step.
        group["lr"] = rate
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
