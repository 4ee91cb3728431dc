"""Finished stages of a long computation on disk, from which an interrupted one continues bit for bit.

A stage is one safetensors file in the computation's folder, written atomically.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from safetensors import SafetensorError, safe_open
from torch import Tensor

from wina_core.compute.reporter import NullReporter, Reporter
from wina_core.compute.tensor_file import save_atomically
from wina_core.errors import WinaError
from wina_core.files.disk import check_room

_KEY, _NOTE = "computation", "note"
"""Keys in a stage's metadata."""
_WRITER = "process"
"""Key of the id of the process that wrote a stage, in its note."""
_SPARE = 1e9
"""Bytes that a checkpoint leaves free on the disk, for results."""


def this_process() -> int:
    """Return the id of this process, by which other ones know whether a stage was left behind."""
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
    """The folder of a computation's stages, named by a hash of all that its result depends on; without one nothing is
    kept."""

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
        """Log that a stage is computed again."""
        self.reporter.log("warning", f"A part is computed again, since {file} is damaged: {error}")

    def write(self, name: str, tensors: Mapping[str, Tensor], **note: Any) -> None:
        """Keep a stage; a full disk only loses the ability to continue."""
        if self.folder is None or self._failed:
            return
        content = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        try:
            size = sum(each.nbytes for each in content.values())
            check_room(self.folder, size + _SPARE, "With what stays free, a checkpoint takes", "free some space")
            save_atomically(
                content, self._file(name), {_KEY: self.folder.name, _NOTE: json.dumps(note | {_WRITER: this_process()})}
            )
        except (OSError, SafetensorError, WinaError) as error:
            self.reporter.log("warning", f"This could not continue from here if it ended now: {error}")
            self._failed = True

    def part(self, name: str) -> "Stages":
        """Return the stages of a part of the computation, in a folder of its own."""
        return Stages(self.reporter, None if self.folder is None else self.folder / name)

    def names(self, start: str) -> list[str]:
        """Return the names of the stages that begin so."""
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
        """Remove the stages, once the result is kept."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name.replace(' ', '-')}.safetensors"
