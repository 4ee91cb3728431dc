"""The search for bases as it goes: the losses of a refinement, and finished stages on disk."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from wina_core.compute import pausable_clock
from wina_core.compute.stages import Stage, Stages
from wina_core.records import RefinementStep


@dataclass(eq=False)
class Search(Stages):
    """The steps of a refinement so far, and its stages."""

    steps: list[RefinementStep] = field(default_factory=list)
    earlier_seconds: float = 0.0
    """Duration of the search until it wrote the last of the stages that were read."""
    _start: float = field(default_factory=lambda: pausable_clock.now())

    @property
    def seconds(self) -> float:
        """Return the duration of the search so far, earlier parts of an interrupted one included."""
        return self.earlier_seconds + pausable_clock.now() - self._start

    def add(self, step: RefinementStep) -> None:
        """Keep a step and report it."""
        self.steps.append(step)
        self.reporter.refined(step)

    def read(self, name: str) -> Stage | None:
        """Return a stage; None if it is missing, damaged, or another search's. Its steps are reported again."""
        stage = super().read(name)
        if stage is None:
            return None
        try:
            steps = [RefinementStep.model_validate(step) for step in stage.note.get("steps", ())]
            self.earlier_seconds = max(self.earlier_seconds, float(stage.note.get("seconds", 0.0)))
        except (TypeError, ValueError) as error:
            self.warn_of_damage(self._file(name), error)
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
        reached = note.get("step", math.inf)
        steps = [each.model_dump(mode="json") for each in self.steps if each.site == site and each.step < reached]
        super().write(name, tensors, **note, steps=steps, seconds=self.seconds)
