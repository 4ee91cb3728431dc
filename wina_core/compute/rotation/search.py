"""The search for bases as it goes: the losses of a refinement, and finished stages on disk.

A stage is one safetensors file in the search's folder, written atomically. A search that was cancelled, failed or
killed continues from its last stages, with the same result bit for bit.
"""

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from wina_core.compute import pausable_clock
from wina_core.compute.reporter import NullReporter, Reporter
from wina_core.compute.tensor_file import save_atomically
from wina_core.records import RefinementStep

_KEY, _NOTE = "found for", "note"
"""Keys in a stage's metadata."""


@dataclass(frozen=True)
class Stage:
    """The content of one stage."""

    tensors: dict[str, Tensor]
    """On the CPU."""
    note: dict[str, Any]
    """JSON."""


@dataclass(eq=False)
class Search:
    """The steps of a refinement so far, and the folder of finished stages; without a folder nothing is kept."""

    reporter: Reporter = field(default_factory=NullReporter)
    folder: Path | None = None
    steps: list[RefinementStep] = field(default_factory=list)
    earlier_seconds: float = 0.0
    """Duration of the search until it wrote the last of the stages that were read."""
    _start: float = field(default_factory=lambda: pausable_clock.now())

    def add(self, step: RefinementStep) -> None:
        """Keep a step and report it."""
        self.steps.append(step)
        self.reporter.refined(step)

    def read(self, name: str) -> Stage | None:
        """Return a stage; None if it is missing, damaged, or another search's. Its steps are reported again."""
        if self.folder is None or not (file := self._file(name)).exists():
            return None
        try:
            with safe_open(file, framework="pt") as content:
                metadata = content.metadata() or {}
                if metadata.get(_KEY) != self.folder.name:
                    return None
                stage = Stage({key: content.get_tensor(key) for key in content.keys()}, json.loads(metadata[_NOTE]))  # noqa: SIM118
            steps = [RefinementStep.model_validate(step) for step in stage.note.get("steps", ())]
            self.earlier_seconds = max(self.earlier_seconds, float(stage.note.get("seconds", 0.0)))
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            self.reporter.log("warning", f"A part of this search is computed again, since {file} is damaged: {error}")
            return None
        for step in steps:
            self.add(step)
        return stage

    def reject(self, name: str, site: str = "") -> None:
        """Log that a stage does not fit, as one of another version, and forget the steps of its `site`."""
        self.reporter.log("warning", f"A part of this search is computed again: the kept {name} does not fit.")
        self.steps[:] = [step for step in self.steps if step.site != site]

    def write(self, name: str, tensors: Mapping[str, Tensor], site: str = "", **note: Any) -> None:
        """Keep a stage, with the steps of a `site`; a full disk only loses the ability to continue."""
        if self.folder is None:
            return
        file = self._file(name)
        reached = note.get("step", math.inf)
        steps = [each.model_dump(mode="json") for each in self.steps if each.site == site and each.step < reached]
        note |= {"steps": steps, "seconds": self.earlier_seconds + pausable_clock.now() - self._start}
        content = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        try:
            save_atomically(content, file, {_KEY: self.folder.name, _NOTE: json.dumps(note)})
        except (OSError, SafetensorError) as error:
            self.reporter.log("warning", f"This search could not continue from here if it ended now: {error}")
            self.folder = None

    def discard(self) -> None:
        """Remove the stages, once the result is kept."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name.replace(' ', '-')}.safetensors"
