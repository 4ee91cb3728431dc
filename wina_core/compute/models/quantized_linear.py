"""Replacements of linear layers, with weights of few bits: of a fixed number, or in planes.

Functions that call libraries, or keep state that torch.compile cannot see, are excluded from compilation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from wina_kernels import sparse_linear
from wina_kernels.dense import is_small_batch, is_supported
from wina_kernels.packing import packed_bytes
from wina_kernels.planes import MOST_PLANES, PLANE_BITS, PlaneWeight
from wina_kernels.weights import FLOATS, STORED_BITS, MixedWeight, QuantizedWeight, WeightT

from wina_core.compute.models.view import Rows

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def uncompiled(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Exclude a function from compilation: a compiled model runs it in Python, between two of its graphs."""

    @wraps(function)
    def called(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        if torch.compiler.is_compiling():  # wrapped only now, since importing the compiler takes seconds
            return torch.compiler.disable(function)(*args, **kwargs)
        return function(*args, **kwargs)

    return called


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
        self.dtype = linear.weight.dtype
        """Data type of `weight`."""
        self.weight_t = weight_t
        for name, tensor in _tensors(weight_t).items():
            self.register_buffer(name, tensor)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        stored = list(self.buffers())
        # `model.half()` and the like cast weights, but must leave codes and scales as they are.
        super()._apply(
            lambda tensor: moved(fn, tensor) if any(tensor is buffer for buffer in stored) else fn(tensor), recurse
        )
        self.weight_t = _with_tensors(self.weight_t, dict(self.named_buffers()))
        # No weight is left to cast: a dummy shows which data type `fn` casts to.
        self.dtype = fn(torch.empty(1, dtype=self.dtype, device=self.weight_t.device)).dtype
        return self

    @property
    def weight(self) -> Tensor:  # type: ignore[override]  # a parameter in nn.Linear
        """W [m, n] dequantized, in the dtype of the model."""
        return self.weight_t.dequantize().to(self.dtype).t()

    @uncompiled
    def forward(self, input: Tensor) -> Tensor:
        """Return y [..., m] for x [..., n]."""
        if is_small_batch(input) and is_supported(input):
            assert not isinstance(self.weight_t, PlaneWeight)  # PlaneLinear has its own forward
            y = sparse_linear(input, self.weight_t, None, 0.0)
            return y if self.bias is None else y + self.bias
        return functional.linear(input, self.weight, self.bias)


def moved(fn: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    """Return `fn(tensor)` of a move, such as `Module.to`, in the data type that the tensor has."""
    moved_tensor = fn(tensor)
    return moved_tensor if moved_tensor.dtype == tensor.dtype else tensor.to(moved_tensor.device)


def weight_like(linear: nn.Linear) -> Tensor:
    """Return a tensor with a layer's data type and device: its weight, or an empty one instead of a dequantized one."""
    if isinstance(linear, QuantizedLinear):
        return torch.empty(0, dtype=linear.dtype, device=linear.weight_t.device)
    return linear.weight


Parents = dict[nn.Module, tuple[nn.Module, str]]
"""The parent of each module, and its name there."""


def parents_of(model: nn.Module) -> Parents:
    return {child: (parent, name) for parent in model.modules() for name, child in parent.named_children()}


def replace_linear(linear: nn.Linear, made: QuantizedLinear, parents: Parents, *, keep: bool = False) -> None:
    """Replace a linear layer by a quantized one; free its memory, unless `keep`."""
    setattr(*parents[linear], made)
    if not keep:
        linear.weight = None  # type: ignore[assignment]  # its memory is needed, whoever still holds the layer


def _tensors(weight_t: WeightT | PlaneWeight, prefix: str = "") -> dict[str, Tensor | None]:
    """Return the tensors of a weight by names."""
    if isinstance(weight_t, Tensor):
        return {f"{prefix}values": weight_t}
    if isinstance(weight_t, PlaneWeight):
        return {name: getattr(weight_t, name) for name in ("codes", "scale", "planes")}
    if isinstance(weight_t, QuantizedWeight):
        return {f"{prefix}{name}": getattr(weight_t, name) for name in ("codes", "scale", "zero")}
    runs = [_tensors(run, f"run{index}_") for index, run in enumerate(weight_t.runs)]
    return {"order": weight_t.order, **{name: tensor for run in runs for name, tensor in run.items()}}


def _with_tensors(weight_t: Any, tensors: dict[str, Tensor], prefix: str = "") -> Any:
    if isinstance(weight_t, Tensor):
        return tensors[f"{prefix}values"]
    if isinstance(weight_t, PlaneWeight):
        return replace(weight_t, codes=tensors["codes"], scale=tensors["scale"], planes=tensors.get("planes"))
    if isinstance(weight_t, QuantizedWeight):
        codes, scale = tensors[f"{prefix}codes"], tensors[f"{prefix}scale"]
        return replace(weight_t, codes=codes, scale=scale, zero=tensors.get(f"{prefix}zero"))
    runs = [_with_tensors(run, tensors, f"run{index}_") for index, run in enumerate(weight_t.runs)]
    return MixedWeight(runs, tensors.get("order"))


def tensors_of(weight_t: WeightT | PlaneWeight) -> dict[str, Tensor]:
    """Return the tensors of a weight by the names of a quantized layer's buffers."""
    return {name: tensor for name, tensor in _tensors(weight_t).items() if tensor is not None}


def form_of(weight_t: WeightT | PlaneWeight) -> dict[str, Any]:
    """Return the fields of a weight that are no tensors, as JSON."""
    if isinstance(weight_t, Tensor):
        return {}
    if isinstance(weight_t, MixedWeight):
        return {"runs": [form_of(run) for run in weight_t.runs]}
    names = ("outputs", "errors") if isinstance(weight_t, PlaneWeight) else ("group", "bits", "signed")
    return {name: getattr(weight_t, name) for name in names}


def weight_of(form: Mapping[str, Any], tensors: Mapping[str, Tensor], prefix: str = "") -> Any:
    """Return the weight of these tensors and `form_of`; KeyError, TypeError or ValueError if they fit no weight."""
    if not form:
        values = tensors[f"{prefix}values"]
        if values.ndim != 2 or values.dtype not in FLOATS:
            raise ValueError(f"its values are {values.dtype} {list(values.shape)}")
        return values
    if "runs" in form:
        runs = [weight_of(run, tensors, f"run{index}_") for index, run in enumerate(form["runs"])]
        return MixedWeight(runs, tensors.get("order"))
    codes, scale = tensors[f"{prefix}codes"], tensors[f"{prefix}scale"]
    if codes.ndim != 2 or not codes.numel() or not scale.numel():
        raise ValueError(f"its codes are {list(codes.shape)} and its scales {list(scale.shape)}")
    if "errors" in form:
        weight = PlaneWeight(codes, scale, tensors.get(f"{prefix}planes"), form["outputs"], tuple(form["errors"]))
        _check_planes(weight)
        return weight
    weight_t = QuantizedWeight(codes, scale, tensors.get(f"{prefix}zero"), **form)
    _check_codes(weight_t)
    return weight_t


def _check_codes(weight_t: QuantizedWeight) -> None:
    """Raise ValueError for tensors whose types, shapes or values do not go together: kernels rely on them."""
    codes, scale, zero, group = weight_t.codes, weight_t.scale, weight_t.zero, weight_t.group
    types = type(weight_t.bits), type(group), type(weight_t.signed)
    if types != (int, int, bool) or weight_t.bits not in STORED_BITS or group < 1:
        raise ValueError(f"it has {weight_t.bits} bits in groups of {group}")
    eight = weight_t.bits == 8
    if codes.dtype != (torch.int8 if eight else torch.uint8) or scale.dtype not in FLOATS or scale.ndim != 2:
        raise ValueError(f"its codes are {codes.dtype} and its scales {scale.dtype} {list(scale.shape)}")
    columns = weight_t.shape[1] if eight else packed_bytes(weight_t.bits, weight_t.shape[1])
    if codes.shape[1:] != (columns,) or len(scale) != -(-len(codes) // group):
        raise ValueError(f"its codes are {list(codes.shape)} and its scales {list(scale.shape)}")
    if zero is not None and (zero.shape, zero.dtype) != (scale.shape, scale.dtype):
        raise ValueError(f"its zeros are {zero.dtype} {list(zero.shape)}")
    _check_finite(scale, *() if zero is None else (zero,))


def _check_planes(weight: PlaneWeight) -> None:
    """Raise ValueError for tensors of planes that do not go together."""
    codes, scale, planes, errors = weight.codes, weight.scale, weight.planes, weight.errors
    if codes.dtype != torch.uint8 or scale.dtype != torch.float16 or scale.ndim != 1 or type(weight.outputs) is not int:
        raise ValueError(f"its codes are {codes.dtype} and its scales {scale.dtype} {list(scale.shape)}")
    if planes is not None and (planes.shape, planes.dtype) != (scale.shape, torch.uint8):
        raise ValueError(f"its numbers of planes are {planes.dtype} {list(planes.shape)}")
    if len(errors) != MOST_PLANES or not all(type(error) is float and 0 <= error < math.inf for error in errors):
        raise ValueError(f"its errors by planes are not {MOST_PLANES} numbers of at least 0")
    counts = weight.counts
    if not 1 <= int(counts.min()) <= int(counts.max()) <= MOST_PLANES or (
        codes.shape != (int(counts.sum()), packed_bytes(PLANE_BITS, weight.outputs))
    ):
        raise ValueError(f"its codes are {list(codes.shape)} for {len(scale)} inputs of {weight.outputs} outputs")
    _check_finite(scale)


def _check_finite(*numbers: Tensor) -> None:
    # NaN passes to both ends.
    if not all(math.isfinite(float(end)) for tensor in numbers for end in tensor.aminmax()):
        raise ValueError("its scales are not finite")


def quantized_weights(model: nn.Module) -> int:
    # They are in buffers, which may be packed, and not among the parameters.
    linears = (module for module in model.modules() if isinstance(module, QuantizedLinear))
    return sum(linear.in_features * linear.out_features for linear in linears)


class PlaneLinear(QuantizedLinear):
    """y = W x + b with W [m, n] in planes: without gates all of them are read."""

    weight_t: PlaneWeight

    @uncompiled
    def forward(self, input: Tensor) -> Tensor:
        """Return y [..., m] for x [..., n]."""
        return functional.linear(input, self.weight, self.bias)

    def graded(self, x: Tensor, levels: Tensor, rows: Rows, bias: Tensor | None) -> Tensor:
        """Return y [..., rows] of x [..., n]; only the first `levels` planes of each input are read."""
        y = self.weight_t.product(x, levels)[..., rows]
        return y if bias is None else y + bias
