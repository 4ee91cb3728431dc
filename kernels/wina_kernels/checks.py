"""Checks of the operations' arguments: a ValueError names the fault, the values and a remedy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from wina_kernels.weights import FLOATS, MixedWeight, QuantizedWeight, WeightT, outputs_bytes


def check_product(x: Tensor, weight_t: WeightT, splits: Sequence[int] | None) -> None:
    """Check that x [..., n] and W^T [n, m] fit, and that the parts are the m outputs."""
    n, m = weight_t.shape
    if x.dtype not in FLOATS:
        raise ValueError(f"x is {_name(x.dtype)}; the kernels take float32, bfloat16 and float16.")
    if x.dim() == 0 or x.shape[-1] != n:
        raise ValueError(f"x {list(x.shape)} has not the {n} inputs of weight_t [{n}, {m}], which is W transposed.")
    if x.device != weight_t.device:
        raise ValueError(f"x is on {x.device} and the weight on {weight_t.device}; move one to the other.")
    if splits is not None and (sum(splits) != m or min(splits, default=0) < 1):
        raise ValueError(
            f"splits {list(splits)} are not the parts of {m} outputs; they must be positive and sum to it."
        )
    for run in weight_t.runs if isinstance(weight_t, MixedWeight) else (weight_t,):
        if isinstance(run, QuantizedWeight):
            _check_quantized(run)
        elif run.dtype != x.dtype and not isinstance(weight_t, MixedWeight):
            raise ValueError(f"x is {_name(x.dtype)} and the weight {_name(run.dtype)}; convert one of them.")
        elif run.dtype not in FLOATS:
            raise ValueError(f"The weight is {_name(run.dtype)}; the kernels take float32, bfloat16 and float16.")
        elif run.stride(1) != 1 and m > 1:
            raise ValueError("The rows of weight_t are not contiguous; pass W.t().contiguous(), [inputs, outputs].")


def check_scale(x: Tensor, scale: Tensor | None, splits: Sequence[int] | None) -> None:
    """Check that scale is float32 [n], or [parts, n] with `splits`, on the device of x."""
    if scale is None:
        return
    shapes = [[x.shape[-1]], *([[len(splits), x.shape[-1]]] if splits else [])]
    if list(scale.shape) not in shapes or scale.dtype != torch.float32:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"scale is {_name(scale.dtype)} {list(scale.shape)}; it must be float32 {wanted}.")
    if scale.device != x.device:
        raise ValueError(f"x is on {x.device} and scale on {scale.device}; move one to the other.")


def check_thresholds(threshold: float | Sequence[float], splits: Sequence[int] | None) -> None:
    """Check one threshold, or with `splits` one for each part; none negative or NaN."""
    for value in _numbers(threshold, "thresholds", splits):
        if math.isnan(value) or value < 0:
            raise ValueError(f"A threshold is {value}; it must be 0 or more, for scores are never negative.")


def check_keep(x: Tensor, keep: int | Sequence[int], splits: Sequence[int] | None) -> None:
    """Check one number of inputs to keep, or with `splits` one for each part; each 1 to n."""
    for value in _numbers(keep, "keep", splits):
        if not 1 <= value <= x.shape[-1]:
            raise ValueError(f"keep is {value}; it must be from 1 to the {x.shape[-1]} inputs.")


def check_mask(x: Tensor, mask: Tensor, splits: Sequence[int] | None) -> None:
    """Check that mask is bool [..., n], or [parts, ..., n] with `splits`, on the device of x."""
    wanted = [*x.shape] if splits is None else [len(splits), *x.shape]
    if list(mask.shape) != wanted or mask.dtype != torch.bool:
        raise ValueError(f"mask is {_name(mask.dtype)} {list(mask.shape)}; it must be bool {wanted}.")
    if mask.device != x.device:
        raise ValueError(f"x is on {x.device} and mask on {mask.device}; move one to the other.")


def _numbers(value: float | Sequence[float], name: str, splits: Sequence[int] | None) -> Sequence[float]:
    if not isinstance(value, Sequence):
        return (value,)
    if splits is None or len(value) != len(splits):
        raise ValueError(f"{name} has {len(value)} values for {len(splits or (0,))} parts; give one, or one a part.")
    return value


def _check_quantized(weight: QuantizedWeight) -> None:
    n, m = weight.shape
    wanted = torch.int8 if weight.bits == 8 else torch.uint8
    if weight.codes.dtype != wanted or (weight.codes.stride(1) != 1 and weight.codes.shape[1] > 1):
        raise ValueError(
            f"codes are {_name(weight.codes.dtype)} with strides {list(weight.codes.stride())}; {weight.bits} bits are "
            f"held in {_name(wanted)}, with contiguous rows."
        )
    if weight.group < 1:
        raise ValueError(f"A group of {weight.group} inputs is none; give 1 or more.")
    columns = outputs_bytes(weight)
    groups = -(-n // weight.group)
    if list(weight.codes.shape) != [n, columns]:
        shape = list(weight.codes.shape)
        raise ValueError(f"codes {shape} do not hold {m} outputs in {weight.bits} bits; they must be [{n}, {columns}].")
    for name, values in (("scale", weight.scale), ("zero", weight.zero)):
        if values is not None and list(values.shape) != [groups, m]:
            raise ValueError(
                f"{name} {list(values.shape)} does not fit {n} inputs in groups of {weight.group}; "
                f"it must be [{groups}, {m}]."
            )
        if values is not None and values.device != weight.codes.device:
            raise ValueError(f"{name} is on {values.device} and the codes on {weight.device}; move one to the other.")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
