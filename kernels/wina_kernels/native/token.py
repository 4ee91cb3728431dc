"""One token through a whole decoder in one call of the native library; `token.h` has the types and the contract."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wina_kernels.native.abi import Gate, StoredWeight, Weight, format_of, loaded
from wina_kernels.planes import PlaneWeight
from wina_kernels.weights import WeightT

CACHE_DTYPES = (torch.float32, torch.bfloat16)
MOST_PROJECTIONS = 3


@dataclass(frozen=True, eq=False)
class DecoderProjection:
    """Some outputs of a block: W^T [n, m], gated or not, or W [m, n] that is read in full."""

    weight_t: WeightT | PlaneWeight | None
    """None for `dense`."""
    first: int
    """The first of its outputs in the block."""
    dense: Tensor | None = None
    """W [m, n], contiguous, float32 or bfloat16."""
    bias: Tensor | None = None
    """[m]."""
    scale: Tensor | None = None
    """Factors of the scores, float32 [n]; None for 1."""
    threshold: float = -1.0
    """Inputs with scores above it are kept, and at least the `keep` highest; a negative one keeps exactly these, or
    everything if `keep` is 0."""
    keep: int = 0
    """Number of the highest scores that are always kept."""
    counts: Tensor | None = None
    """Inputs (kept, seen), int64 [1, 2], that each gated token adds to; None for a projection without a gate."""
    planes: Tensor | None = None
    """Number of planes read, int64 [1], that each gated token adds to; None for weights without planes."""


@dataclass(frozen=True, eq=False)
class DecoderLayer:
    """A decoder layer; blocks are linear layers that read the same input."""

    attention_norm: Tensor
    mlp_norm: Tensor
    qkv: Sequence[DecoderProjection]
    """Outputs in the order q, k, v."""
    o: Sequence[DecoderProjection]
    gate_up: Sequence[DecoderProjection]
    """Outputs in the order gate, up."""
    down: Sequence[DecoderProjection]
    query_norm: Tensor | None = None
    key_norm: Tensor | None = None
    window: int = 0
    """Positions that attention sees, including the token's own; 0 for all."""


@dataclass(frozen=True, eq=False)
class NativeDecoder:
    """A decoder with RMSNorms, rotary halves, grouped queries and a gated MLP with SiLU."""

    hidden: int
    units: int
    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    attention_scale: float
    embedding: Tensor
    """[vocabulary, hidden], float32 or bfloat16."""
    cosines: Tensor
    """[positions, rotary_dim / 2]."""
    sines: Tensor
    final_norm: Tensor
    layers: Sequence[DecoderLayer]
    head: DecoderProjection


class TokenCall:
    """A decoder prepared for the library. It holds all weights, which must stay in place."""

    def __init__(self, decoder: NativeDecoder) -> None:
        self._library = _library()
        self._kept: list[object] = [decoder]  # tensors whose addresses the library gets
        self._vocabulary = len(decoder.embedding)
        self.positions = len(decoder.cosines)
        """Positions that a sequence may reach."""
        self._layers = (_Layer * len(decoder.layers))(*map(self._layer, decoder.layers))
        self._model = _Model(
            decoder.hidden, decoder.units, decoder.heads, decoder.kv_heads, decoder.head_dim,
            2 * decoder.cosines.shape[1], self._vocabulary, len(decoder.layers), decoder.epsilon,
            decoder.attention_scale, format_of(decoder.embedding.dtype), self._address(decoder.embedding),
            self._floats(decoder.cosines), self._floats(decoder.sines), self._floats(decoder.final_norm),
            self._layers, self._block([decoder.head]),
        )  # fmt: skip

    def __call__(self, cache: Tensor, token: int, position: int, *, gated: bool) -> Tensor:
        """Read a token at a position and return the logits [vocabulary] of the next one, float32.

        `cache` [layers, 2, kv_heads, capacity, head_dim] holds the keys and values of the positions before, and gets
        this one's. Raises MemoryError without memory for the scratch space.
        """
        logits = torch.empty(self._vocabulary)
        memory = _Cache(cache.data_ptr(), format_of(cache.dtype), cache.shape[3])
        status = self._library.wina_decode(
            ctypes.byref(self._model), ctypes.byref(memory), token, position, int(gated), torch.get_num_threads(),
            logits.data_ptr(),
        )  # fmt: skip
        if status != 0:
            raise MemoryError("There is no memory for the numbers of one token.")
        return logits

    def _layer(self, layer: DecoderLayer) -> Any:
        return _Layer(
            self._floats(layer.attention_norm), self._floats(layer.mlp_norm), self._floats(layer.query_norm),
            self._floats(layer.key_norm), self._block(layer.qkv), self._block(layer.o), self._block(layer.gate_up),
            self._block(layer.down), layer.window,
        )  # fmt: skip

    def _block(self, projections: Sequence[DecoderProjection]) -> Any:
        return _Block(len(projections), (_Projection * len(projections))(*map(self._projection, projections)))

    def _projection(self, projection: DecoderProjection) -> Any:
        if projection.weight_t is not None:
            stored = StoredWeight(projection.weight_t)
            self._kept.append(stored)
            self._use_huge_pages(stored.weight)
            weight, dense_format = stored.weight, 0
        else:
            assert projection.dense is not None
            m, n = projection.dense.shape
            self._library.wina_use_huge_pages(projection.dense.data_ptr(), projection.dense.nbytes)
            weight, dense_format = Weight(inputs=n, outputs=m), format_of(projection.dense.dtype)
        gate = Gate(None, self._floats(projection.scale), projection.threshold, projection.keep)
        return _Projection(
            weight, gate, self._address(projection.dense), dense_format, projection.first,
            int(projection.counts is not None), self._address(projection.counts),
            self._address(projection.planes), self._floats(projection.bias),
        )  # fmt: skip

    def _use_huge_pages(self, weight: Any) -> None:
        # Without the last row, which may end before a whole stride.
        for run in weight.run[: weight.runs]:
            self._library.wina_use_huge_pages(run.codes, (run.rows - 1) * run.stride)

    def _floats(self, values: Tensor | None) -> int | None:
        return None if values is None else self._address(values.detach().float().contiguous())

    def _address(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        self._kept.append(tensor)
        return tensor.data_ptr()


def _library() -> ctypes.CDLL:
    native = loaded()
    if native is None:
        raise RuntimeError("The native library is missing; decode by transformers instead.")
    native.wina_decode.argtypes = [*(ctypes.c_void_p,) * 2, *(ctypes.c_int32,) * 4, ctypes.c_void_p]
    native.wina_use_huge_pages.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    return native


class _Projection(ctypes.Structure):
    _fields_ = (
        ("weight", Weight),
        ("gate", Gate),
        ("dense", ctypes.c_void_p),
        ("dense_format", ctypes.c_int32),
        ("first", ctypes.c_int32),
        ("gated", ctypes.c_int32),
        ("counts", ctypes.c_void_p),
        ("planes", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
    )


class _Block(ctypes.Structure):
    _fields_ = (("count", ctypes.c_int32), ("each", ctypes.POINTER(_Projection)))


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("attention_norm", "mlp_norm", "query_norm", "key_norm")),
        *((name, _Block) for name in ("qkv", "o", "gate_up", "down")),
        ("window", ctypes.c_int32),
    )


class _Model(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_int32)
            for name in ("hidden", "units", "heads", "kv_heads", "head_dim", "rotary_dim", "vocabulary", "layers")
        ),
        ("epsilon", ctypes.c_float),
        ("attention_scale", ctypes.c_float),
        ("embedding_format", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("embedding", "cosines", "sines", "final_norm")),
        ("layer", ctypes.POINTER(_Layer)),
        ("head", _Block),
    )


class _Cache(ctypes.Structure):
    _fields_ = (("memory", ctypes.c_void_p), ("format", ctypes.c_int32), ("capacity", ctypes.c_int32))
