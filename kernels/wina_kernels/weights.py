"""Weights as the kernels read them: transposed, so that all weights of one input are contiguous."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from wina_kernels.packing import pack, packed_bytes, unpack

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
StoredBits = Literal[8, 6, 4, 3, 2]
STORED_BITS: tuple[StoredBits, ...] = get_args(StoredBits)
MOST_RUNS = 4


def are_recorded(*tensors: Tensor) -> bool:
    # The kernels have no backward pass.
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """W^T [n, m] in few bits: W^T[i, j] = (code[i, j] - zero[g, j]) * scale[g, j] with g = i // group."""

    codes: Tensor
    """8 bits: int8 [n, m]. Fewer: uint8 [n, bytes], rows packed by `packing`."""
    scale: Tensor
    """[ceil(n / group), m], float32, bfloat16 or float16."""
    zero: Tensor | None
    """Like `scale`; None for 0."""
    group: int
    """Inputs that share scales; n if all of an output's do."""
    bits: StoredBits
    signed: bool = False
    """Whether codes below 8 bits are stored 2^(bits - 1) higher than they are."""

    @classmethod
    def of(cls, codes: Tensor, scale: Tensor, zero: Tensor | None, group: int, bits: int) -> QuantizedWeight:
        """Pack codes [n, m]: uint8 of 0 to 2^bits - 1, or int8 of -2^(bits - 1) to 2^(bits - 1) - 1.

        Raises ValueError for other bits, dtypes or codes, and if scales do not fit.
        """
        if bits not in STORED_BITS:
            raise ValueError(f"Codes have {bits} bits; the kernels store {', '.join(map(str, STORED_BITS))}.")
        half, signed = 1 << (bits - 1), codes.dtype == torch.int8
        lowest = -half if signed else 0
        if not signed and codes.dtype != torch.uint8:
            raise ValueError(f"Codes are {str(codes.dtype).removeprefix('torch.')}; give uint8 or int8.")
        if codes.numel() and not lowest <= int(codes.min()) <= int(codes.max()) <= lowest + 2 * half - 1:
            code_range = f"{int(codes.min())} to {int(codes.max())}"
            raise ValueError(f"Codes are {code_range}; {bits} bits hold {lowest} to {lowest + 2 * half - 1}.")
        if bits == 8:
            if not signed:  # stored 128 lower, as its zeros are
                codes = (codes.to(torch.int16) - half).to(torch.int8)
                zero = (torch.zeros_like(scale) if zero is None else zero) - half
            return cls(codes.contiguous(), scale, zero, group, 8)
        stored = (codes.to(torch.int16) + half).to(torch.uint8) if signed else codes
        return cls(pack(stored, bits), scale, zero, group, bits, signed)

    @property
    def shape(self) -> tuple[int, int]:
        """(n inputs, m outputs)."""
        return len(self.codes), self.scale.shape[1]

    @property
    def device(self) -> torch.device:
        return self.codes.device

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in (self.codes, self.scale, self.zero) if tensor is not None)

    def unpacked(self) -> Tensor:
        """Return the codes [n, m]: int8 for signed ones and for 8 bits (unsigned ones minus 128), else uint8."""
        if self.bits == 8:
            return self.codes
        codes = unpack(self.codes, self.bits, self.shape[1])
        return (codes.to(torch.int16) - (1 << (self.bits - 1))).to(torch.int8) if self.signed else codes

    def dequantize(self) -> Tensor:
        """Return W^T, float32 [n, m]."""
        values = self.unpacked().to(torch.float32, copy=True)
        for group, rows in enumerate(torch.split(values, self.group)):
            if self.zero is not None:
                rows -= self.zero[group].float()
            rows *= self.scale[group].float()
        return values


@dataclass(frozen=True, eq=False)
class MixedWeight:
    """W^T [n, m] in runs of inputs, each in a format of its own."""

    runs: Sequence[Tensor | QuantizedWeight]
    """1 to 4: [n_1, m], [n_2, m], ..., floats with contiguous rows or quantized."""
    order: Tensor | None = None
    """int32 [n]: the input of each stored row; None if they are in order."""

    def __post_init__(self) -> None:
        """Raise ValueError if the runs are too many, differ in outputs or devices, or if `order` permutes nothing."""
        if not 1 <= len(self.runs) <= MOST_RUNS:
            raise ValueError(f"A weight of {len(self.runs)} runs; it may have 1 to {MOST_RUNS}.")
        if len({run.shape[1] for run in self.runs}) > 1 or len({run.device for run in self.runs}) > 1:
            run_shapes = ", ".join(f"{list(run.shape)} on {run.device}" for run in self.runs)
            raise ValueError(
                f"The runs {run_shapes} are no parts of one weight; they need equal outputs on one device."
            )
        if self.order is None:
            return
        order = self.order
        n = self.shape[0]
        if order.dtype != torch.int32 or list(order.shape) != [n] or order.device != self.device:
            raise ValueError(f"order is {order.dtype} {list(order.shape)} on {order.device}; give int32 [{n}].")
        if not torch.equal(order.sort().values, torch.arange(n, dtype=torch.int32, device=order.device)):
            raise ValueError(f"order is no permutation of the {n} inputs.")

    @property
    def shape(self) -> tuple[int, int]:
        """(n inputs, m outputs)."""
        return sum(run.shape[0] for run in self.runs), self.runs[0].shape[1]

    @property
    def device(self) -> torch.device:
        return self.runs[0].device

    @property
    def bytes(self) -> int:
        order = 0 if self.order is None else self.order.nbytes
        return order + sum(run.nbytes if isinstance(run, Tensor) else run.bytes for run in self.runs)

    @cached_property
    def places(self) -> Tensor | None:
        """The stored row of each input, int64 [n]; None if they are in order."""
        return None if self.order is None else self.order.long().argsort()

    def dequantize(self) -> Tensor:
        """Return W^T, float32 [n, m], in the model's order of inputs."""
        stored = torch.cat([run.float() if isinstance(run, Tensor) else run.dequantize() for run in self.runs])
        return stored if self.places is None else stored[self.places]


WeightT = Tensor | QuantizedWeight | MixedWeight
"""W^T [n, m]: float32, bfloat16 or float16 with contiguous rows, quantized, or in runs of these."""


def form(weight_t: WeightT) -> str:
    """Return a name of the stored format, such as "bfloat16", "int4 64" or "int8 1024 + float32"."""
    if isinstance(weight_t, Tensor):
        return str(weight_t.dtype).removeprefix("torch.")
    if isinstance(weight_t, MixedWeight):
        return " + ".join(f"{run.shape[0]} {form(run)}" for run in weight_t.runs)
    return f"int{weight_t.bits} {weight_t.group}"


def outputs_bytes(weight: QuantizedWeight) -> int:
    return packed_bytes(weight.bits, weight.shape[1])
