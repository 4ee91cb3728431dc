"""Descent over orthogonal matrices by Cayley steps, which continues from a stored state.

A search for bases keeps the losses of its refinement in memory, and finished stages on disk.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from wina_core.compute import pausable_clock
from wina_core.compute.rotation.matrices import orthonormalized
from wina_core.compute.stages import SAVING_SECONDS, Stage, Stages, adam_state, restore_adam
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
        """Duration of the search so far, with the earlier parts of an interrupted one."""
        return self.earlier_seconds + pausable_clock.now() - self._start

    def add(self, step: RefinementStep) -> None:
        self.steps.append(step)
        self.reporter.refined(step)

    def read(self, name: str) -> Stage | None:
        """Return a stage; None if it is missing, damaged, or another search's. Its steps are reported again."""
        stage = super().read(name)
        if stage is None:
            return None
        try:
            steps = [RefinementStep.model_validate(step) for step in stage.note.get("steps", ())]
            # Stages are read in any order, and each holds the duration up to its own end.
            self.earlier_seconds = max(self.earlier_seconds, float(stage.note.get("seconds", 0.0)))
        except (TypeError, ValueError) as error:
            self.warn_of_damage(self._file(name), error)
            return None
        for step in steps:
            self.add(step)
        return stage

    def reject(self, name: str, site: str = "") -> None:
        """Log that a stage does not fit, such as one of another version, and forget the steps of its `site`."""
        self.reporter.log("warning", f"A part of this search is computed again: the kept {name} does not fit.")
        self.steps[:] = [step for step in self.steps if step.site != site]

    def write(self, name: str, tensors: Mapping[str, Tensor], site: str = "", **note: Any) -> None:
        """Keep a stage, with the steps of a `site`; a full disk only loses the ability to continue."""
        # A continued search repeats the steps from this one on, and adds them again.
        reached = note.get("step", math.inf)
        steps = [step.model_dump(mode="json") for step in self.steps if step.site == site and step.step < reached]
        super().write(name, tensors, **note, steps=steps, seconds=self.seconds)


LEARNING_RATE = 4e-3
"""Learning rate for the entries of A below: about the angle, in radians, that a plane may turn in one step."""


def cayley(skew: Tensor) -> Tensor:
    """Return (I + A)^-1 (I - A) of skew-symmetric A [.., n, n]: orthogonal, with determinant 1, and I for A = 0."""
    identity = torch.eye(skew.shape[-1], dtype=skew.dtype, device=skew.device)
    return torch.linalg.solve(identity + skew, identity - skew)


def descend(
    starts: Sequence[Tensor],
    loss: Callable[[Sequence[Tensor], int], Tensor],
    steps: int,
    rate: float = LEARNING_RATE,
    generator: torch.Generator | None = None,
    search: Search | None = None,
    site: str = "",
) -> list[Tensor]:
    """Return orthogonal float64 matrices of lower loss near `starts` ([.., n, n] each).

    Each is its start times the Cayley transform of a skew-symmetric matrix, on which Adam descends with a cosine decay,
    so every iterate is orthogonal (the Cayley parametrization of Li et al., "Efficient Riemannian optimization on the
    Stiefel manifold via the Cayley transform", with a fixed base point). `loss` gets float32 matrices and the step's
    number, and draws random numbers from `generator` alone; it may add gradients to the matrices itself and return a
    number without any. `search` stores the state under the name of the `site`: every minute, and when `loss` raises, as
    of the last whole step. A stored state that does not fit is ignored.
    """
    search = search or Search()
    generator = generator or torch.Generator()
    fresh = generator.get_state()
    stage = search.read(site)
    if stage is not None and "basis.0" in stage.tensors:
        stored = [stage.tensors.get(f"basis.{index}") for index in range(len(starts))]
        if all(basis is not None and basis.shape == start.shape for basis, start in zip(stored, starts, strict=True)):
            return [basis.to(start.device) for basis, start in zip(stored, starts, strict=True) if basis is not None]
    bases = [start.float() for start in starts]
    try:
        free, optimizer, schedule, first = _begin(bases, rate, steps, generator, stage)
    except (KeyError, TypeError, ValueError, RuntimeError):
        search.reject(site, site)
        generator.set_state(fresh)  # restoring may have failed after it set the generator
        free, optimizer, schedule, first = _begin(bases, rate, steps, generator, None)
    saved = pausable_clock.now()
    for step in range(first, steps):
        # Taken before the loss draws: a continued search repeats this step with the same numbers.
        drawn = generator.get_state()

        def save(step: int = step, drawn: Tensor = drawn) -> None:
            state = adam_state(free, optimizer) | {"generator": drawn}
            search.write(site, state, site, step=step, schedule=schedule.state_dict())

        if pausable_clock.now() - saved > SAVING_SECONDS:
            save()
            saved = pausable_clock.now()
        try:
            with torch.enable_grad():
                current = [base @ cayley(_skew(entries)) for base, entries in zip(bases, free, strict=True)]
                # The loss sees leaves, so that it may add gradients to them itself, a layer at a time.
                leaves = [basis.detach().requires_grad_() for basis in current]
                value = loss(leaves, step)
            if value.requires_grad:
                value.backward()
            # The gradients stand at the leaves; from there they go back through the Cayley transform.
            optimizer.zero_grad()
            torch.autograd.backward(current, [leaf.grad for leaf in leaves])
        except BaseException:  # a cancellation, too: the steps so far are not lost
            if step > first:
                save()
            raise
        optimizer.step()
        schedule.step()
    with torch.no_grad():  # in float64, since float32 bases are not orthogonal enough for an exact rotation
        turns = [cayley(_skew(entries.double())) for entries in free]
        refined = [orthonormalized(start.double() @ turn) for start, turn in zip(starts, turns, strict=True)]
    search.write(site, {f"basis.{index}": basis for index, basis in enumerate(refined)}, site)
    return refined


def _begin(
    bases: Sequence[Tensor], rate: float, steps: int, generator: torch.Generator, stage: Stage | None
) -> tuple[list[Tensor], torch.optim.Optimizer, Any, int]:
    """Return the parameters, their optimizer with its schedule, and the first step, continued from a `stage`.

    Raises KeyError, TypeError, ValueError or RuntimeError for a stage that does not fit.
    """
    free = [torch.zeros_like(base, requires_grad=True) for base in bases]
    optimizer = torch.optim.Adam(free, lr=rate, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    if stage is None:
        return free, optimizer, schedule, 0
    restore_adam(stage, free, optimizer, schedule)
    generator.set_state(stage.tensors["generator"])
    return free, optimizer, schedule, int(stage.note["step"])


def _skew(free: Tensor) -> Tensor:
    lower = free.tril(-1)
    return lower - lower.mT
