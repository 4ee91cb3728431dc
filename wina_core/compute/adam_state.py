"""The state of Adam on disk, from which a descent continues."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wina_core.compute.stages import Stage

SAVING_SECONDS = 60.0
"""Time between two states on disk."""
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""Adam's state of each parameter."""


def adam_state(free: Sequence[Tensor], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the parameters with their moments at the beginning of a step."""
    moments: dict[int, dict[str, Tensor]] = optimizer.state_dict()["state"]
    state = {f"free.{index}": each.detach() for index, each in enumerate(free)}
    return state | {f"{name}.{index}": each[name] for index, each in moments.items() for name in _MOMENTS}


def restore_adam(stage: Stage, free: Sequence[Tensor], optimizer: torch.optim.Optimizer, schedule: Any) -> None:
    """Restore a state that was kept with the `schedule` of the rates.

    Raises KeyError, TypeError, ValueError or RuntimeError for a state that does not fit.
    """
    for index, each in enumerate(free):
        for name in ("free", "exp_avg", "exp_avg_sq"):
            kept = stage.tensors[f"{name}.{index}"]
            if kept.shape != each.shape or not kept.isfinite().all():
                raise ValueError(f"{name} has another shape, or numbers that none can have")
    if stage.note["schedule"]["last_epoch"] not in range(schedule.T_max + 1):
        raise ValueError("the schedule has another length")
    with torch.no_grad():
        for index, each in enumerate(free):
            each.copy_(stage.tensors[f"free.{index}"])
    moments = {index: {name: stage.tensors[f"{name}.{index}"] for name in _MOMENTS} for index in range(len(free))}
    schedule.load_state_dict(stage.note["schedule"])
    groups = optimizer.state_dict()["param_groups"]
    for group, rate in zip(groups, schedule.get_last_lr(), strict=True):
        group["lr"] = rate
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
