"""Checks for NaN and infinity."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute.hooks import hooked
from wina_core.compute.models.view import ModelView
from wina_core.errors import WinaError


def check_numbers(values: Tensor, subject: str = "logits") -> None:
    """Raise WinaError if the dense model's result `subject` has a NaN or an infinity."""
    if not values.isfinite().all():
        raise WinaError(
            f"The model's {subject} are not numbers; check its weights, or open it in bfloat16 or float32 instead."
        )


def check_weights_finite(weights: Iterable[tuple[str, Tensor]], where: str) -> None:
    """Raise WinaError if a weight has a NaN or an infinity. Each is read once, at the speed of the memory."""
    for name, weight in weights:
        if weight.numel() and not torch.stack(torch.aminmax(weight)).isfinite().all():
            raise WinaError(f"{name} in {where} has values that are no finite numbers; download or copy it again.")


def numbers_only(view: ModelView, where: str) -> AbstractContextManager[None]:
    """Raise WinaError within the block when a forward pass gives logits that are not numbers.

    The error names the measurement, `where`, as in "on demo_choice".
    """

    def check(_model: nn.Module, _args: Any, output: Any) -> None:
        if not output.logits.max() < torch.inf:  # false for NaN, too, and far cheaper than isnan
            raise non_finite_error(where)

    return hooked([view.model.register_forward_hook(check)])


def non_finite_error(where: str, origin: str = "") -> WinaError:
    """Return the error of a measurement, such as "on demo_choice", whose logits are not numbers."""
    return WinaError(
        f"The model's logits are not numbers {where}{origin}; lower the sparsity or load the model in another dtype."
    )
