"""Finished stages of a long computation on disk, from which an interrupted one continues bit for bit.

A stage is one safetensors file in the computation's folder, written atomically.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from wina_core.compute.reporter import NullReporter, Reporter
from wina_core.compute.tensor_file import save_atomically

_KEY, _NOTE = "computation", "note"
"""Keys in a stage's metadata."""


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
        if self.folder is None:
            return
        content = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        try:
            save_atomically(content, self._file(name), {_KEY: self.folder.name, _NOTE: json.dumps(note)})
        except (OSError, SafetensorError) as error:
            self.reporter.log("warning", f"This could not continue from here if it ended now: {error}")
            self.folder = None

    def part(self, name: str) -> "Stages":
        """Return the stages of a part of the computation, in a folder of its own."""
        return Stages(self.reporter, None if self.folder is None else self.folder / name)

    def discard(self) -> None:
        """Remove the stages, once the result is kept."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name.replace(' ', '-')}.safetensors"
