"""A linear layer with weights of few bits, in the place of a plain one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from wina_kernels import sparse_linear
from wina_kernels.dense import are_few, takes
from wina_kernels.packing import packed_bytes
from wina_kernels.planes import PlaneWeight
from wina_kernels.weights import MixedWeight, QuantizedWeight, WeightT

from wina_core.compute.models.uncompiled import uncompiled


class QuantizedLinear(nn.Linear):
    """y = W x + b with W [m, n] quantized, stored in buffers, so that the model's memory counts them.

    A few tokens are multiplied by a kernel that dequantizes on the way and skips weights of inputs that are 0. For more
    tokens, and on every access, `weight` is dequantized anew and not kept.
    """

    weight_t: QuantizedWeight | MixedWeight | PlaneWeight
    """W^T as stored."""

    def __init__(self, linear: nn.Linear, weight_t: QuantizedWeight | MixedWeight | PlaneWeight) -> None:
        """Replace `linear` by `weight_t`, its W^T; dtype when dequantized and bias are `linear`'s."""
        nn.Module.__init__(self)  # nn.Linear's own would make a weight of full size
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        self._dtype = linear.weight.dtype
        self.weight_t = weight_t
        for name, part in _parts(weight_t).items():
            self.register_buffer(name, part)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        stored = list(self.buffers())
        super()._apply(lambda each: moved(fn, each) if any(each is part for part in stored) else fn(each), recurse)
        self.weight_t = _with_parts(self.weight_t, dict(self.named_buffers()))
        self._dtype = fn(torch.empty(1, dtype=self._dtype, device=self.weight_t.device)).dtype
        return self

    @property
    def weight(self) -> Tensor:  # type: ignore[override]  # a parameter in nn.Linear
        """W [m, n] dequantized, in the dtype of the model."""
        return self.weight_t.dequantize().to(self._dtype).t()

    @uncompiled
    def forward(self, input: Tensor) -> Tensor:
        """Return y [..., m] for x [..., n]."""
        if are_few(input) and takes(input):
            assert not isinstance(self.weight_t, PlaneWeight)  # which has a forward of its own
            y = sparse_linear(input, self.weight_t, None, 0.0)
            return y if self.bias is None else y + self.bias
        return functional.linear(input, self.weight, self.bias)


def moved(fn: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    """Return `fn(tensor)` of a move, such as `Module.to`, in the data type that the tensor has."""
    found = fn(tensor)
    return found if found.dtype == tensor.dtype else tensor.to(found.device)


Places = dict[nn.Module, tuple[nn.Module, str]]
"""The parent of each module, and its name there."""


def places_of(model: nn.Module) -> Places:
    """Return the places of a model's modules."""
    return {child: (parent, name) for parent in model.modules() for name, child in parent.named_children()}


def replace_linear(linear: nn.Linear, made: QuantizedLinear, places: Places, *, keep: bool = False) -> None:
    """Put a quantized layer in the place of a linear one, whose memory is freed unless its weight is to be kept."""
    setattr(*places[linear], made)
    if not keep:
        linear.weight = None  # type: ignore[assignment]  # its memory is needed, whoever still holds the layer


def _parts(weight_t: WeightT | PlaneWeight, prefix: str = "") -> dict[str, Tensor | None]:
    """Return the tensors of a weight by names."""
    if isinstance(weight_t, Tensor):
        return {f"{prefix}values": weight_t}
    if isinstance(weight_t, PlaneWeight):
        return {name: getattr(weight_t, name) for name in ("codes", "scale", "planes")}
    if isinstance(weight_t, QuantizedWeight):
        return {f"{prefix}{name}": getattr(weight_t, name) for name in ("codes", "scale", "zero")}
    runs = [_parts(run, f"run{place}_") for place, run in enumerate(weight_t.runs)]
    return {"order": weight_t.order, **{name: part for run in runs for name, part in run.items()}}


def _with_parts(weight_t: Any, parts: dict[str, Tensor], prefix: str = "") -> Any:
    """Return the weight with other tensors."""
    if isinstance(weight_t, Tensor):
        return parts[f"{prefix}values"]
    if isinstance(weight_t, PlaneWeight):
        return replace(weight_t, codes=parts["codes"], scale=parts["scale"], planes=parts.get("planes"))
    if isinstance(weight_t, QuantizedWeight):
        codes, scale = parts[f"{prefix}codes"], parts[f"{prefix}scale"]
        return replace(weight_t, codes=codes, scale=scale, zero=parts.get(f"{prefix}zero"))
    runs = [_with_parts(run, parts, f"run{place}_") for place, run in enumerate(weight_t.runs)]
    return MixedWeight(runs, parts.get("order"))


def parts_of(weight_t: WeightT | PlaneWeight) -> dict[str, Tensor]:
    """Return the tensors of a weight by the names of a quantized layer's buffers."""
    return {name: part for name, part in _parts(weight_t).items() if part is not None}


def form_of(weight_t: WeightT | PlaneWeight) -> dict[str, Any]:
    """Return what a weight is beside its tensors, as JSON."""
    if isinstance(weight_t, Tensor):
        return {}
    if isinstance(weight_t, MixedWeight):
        return {"runs": [form_of(run) for run in weight_t.runs]}
    names = ("outputs", "errors") if isinstance(weight_t, PlaneWeight) else ("group", "bits", "signed")
    return {name: getattr(weight_t, name) for name in names}


def weight_of(form: Mapping[str, Any], parts: Mapping[str, Tensor], prefix: str = "") -> Any:
    """Return the weight of these tensors and `form_of`; KeyError, TypeError or ValueError if they fit no weight."""
    if not form:
        return parts[f"{prefix}values"]
    if "runs" in form:
        runs = [weight_of(run, parts, f"run{place}_") for place, run in enumerate(form["runs"])]
        return MixedWeight(runs, parts.get("order"))
    codes, scale = parts[f"{prefix}codes"], parts[f"{prefix}scale"]
    if "errors" in form:
        return PlaneWeight(codes, scale, parts.get("planes"), form["outputs"], tuple(form["errors"]))
    weight_t = QuantizedWeight(codes, scale, parts.get(f"{prefix}zero"), **form)
    columns = weight_t.shape[1] if weight_t.bits == 8 else packed_bytes(weight_t.bits, weight_t.shape[1])
    if codes.shape[1] != columns or len(scale) != -(-len(codes) // weight_t.group):
        raise ValueError(f"its codes are {list(codes.shape)} and its scales {list(scale.shape)}")
    return weight_t


def quantized_weights(model: nn.Module) -> int:
    """Return the number of quantized weights of the model, which are not among its parameters."""
    linears = (module for module in model.modules() if isinstance(module, QuantizedLinear))
    return sum(linear.in_features * linear.out_features for linear in linears)
