"""Checks for NaN and infinity, and the search for their origin."""

from collections.abc import Callable, Iterable, Mapping
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

    The error names the measurement (`where`, as in "on demo_choice") and the module of origin, found by repeating the
    pass.
    """
    return hooked([view.model.register_forward_hook(_LogitsCheck(view, where), with_kwargs=True)])


class _LogitsCheck:
    """A model's forward hook. It keeps the ids that were read into the cache, since a cache cannot be read twice."""

    def __init__(self, view: ModelView, where: str) -> None:
        self._view = view
        self._where = where
        self._read: list[Tensor] = []
        self._repeating = False

    def __call__(self, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        if self._repeating:
            return
        ids: Tensor = args[0] if args else kwargs["input_ids"]
        mask = kwargs.get("attention_mask")
        mask = mask if isinstance(mask, Tensor) and mask.dim() == 2 else None  # others are made from one like it
        continues = mask is not None and mask.shape[1] > ids.shape[1]
        self._read = [*self._read, ids] if continues else [ids]
        if output.logits.max() < torch.inf:  # false for NaN, too, and far cheaper than isnan
            return
        # The repeated pass comes through this hook, too.
        self._repeating = True
        raise non_finite_error(
            self._view, self._where, lambda: model(torch.cat(self._read, dim=1), attention_mask=mask, use_cache=False)
        )


def non_finite_error(view: ModelView, where: str, forward: Callable[[], object]) -> WinaError:
    """Return the error of logits that are not numbers, whose origin is found by repeating the pass."""
    origin = first_not_finite(view, forward)
    begin = f"the first number that is not finite {origin}" if origin else "repeated, the same pass went well"
    return WinaError(
        f"The model's logits are not numbers {where}: {begin}; lower the sparsity or load the model in another dtype."
    )


def first_not_finite(view: ModelView, forward: Callable[[], object]) -> str:
    """Return the first place of a NaN or an infinity, such as "comes out of o in decoder layer 3", or an empty text.

    It "goes into" a module if it arises between modules: in attention's scores, or in a sum.
    """
    origins: list[str] = []

    def record_first(value: object, origin: str) -> None:
        value = value[0] if isinstance(value, tuple) and value else value
        if not origins and isinstance(value, Tensor) and value.is_floating_point() and not value.isfinite().all():
            origins.append(origin)

    hooks = []
    for module, name in _names(view).items():

        def before(_: nn.Module, args: Any, kwargs: Mapping[str, Any], name: str = name) -> None:
            record_first(args or kwargs.get("hidden_states"), f"goes into {name}")

        def after(_: nn.Module, __: Any, output: Any, name: str = name) -> None:
            record_first(output, f"comes out of {name}")

        hooks += [module.register_forward_pre_hook(before, with_kwargs=True), module.register_forward_hook(after)]
    with hooked(hooks), torch.no_grad():
        forward()
    return origins[0] if origins else ""


def _names(view: ModelView) -> dict[nn.Module, str]:
    names = {module: name for name, module in view.model.named_modules() if name}
    for layer in view.layers:
        layer_name = f"decoder layer {layer.index}"
        names |= {
            module: f"{name} in {layer_name}" if name else layer_name for name, module in layer.module.named_modules()
        }
        for layer_or_expert in layer.parts:
            owner = layer_name if layer_or_expert.expert is None else f"expert {layer_or_expert.expert} of {layer_name}"
            for projection in layer_or_expert.projections.values():
                together = [
                    name for name, other in layer_or_expert.projections.items() if other.linear is projection.linear
                ]
                names[projection.linear] = f"{', '.join(together)} in {owner}"
    return names
