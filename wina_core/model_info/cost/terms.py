"""The cost formulas of each part of a generated token, in floating-point operations and in bytes read, and the memory
that weights hold.

Conventions. One token, batch 1, its context already in the KV cache. A multiply-add is two operations; a comparison,
an exponential and a division are one each; an absolute value (a sign bit) is none. Bytes are those of weights and KV
cache, which come from memory for every token. Activations, which stay on the chip, scalar multipliers, soft caps and
the arithmetic of dequantizing are left out.
"""

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np

from wina_core.errors import WinaError
from wina_core.model_info.cost.matrices import Mask, Matrices, Table, matrices, total
from wina_core.model_info.sizes import ELEMENT_BYTES
from wina_core.records import ModelShape
from wina_core.specs import Quantization, QuantizationSpec
from wina_core.specs.quantization import PLANES_BITS

NORM_BYTES = 4
"""Bytes of a column norm c_i, float32 for weights of any type."""
INT4_GROUPS = (64, 32, 16)
"""Inputs of a row with a common scale and zero in int4: the first that fits (`int4_group`)."""
SOFTMAX = 6
"""Operations per attended position of a softmax: scale, maximum, difference, exponential, sum, quotient."""
RMS_NORM = 4
"""Operations per input of an RMSNorm: square, sum, times the reciprocal root, times the gain."""
LAYER_NORM = 7
"""Operations per input of a LayerNorm: sum, difference, square, sum, times the reciprocal root, gain, bias."""
ROTARY = 3
"""Operations per rotated element: two multiplications and one addition."""
PARTITION = 4
"""Comparisons per input that select the K highest: Hoare's partitioning expects 2 (1 + H) n with
H = -a ln a - (1 - a) ln(1 - a), a = K / n (Knuth, "Mathematical analysis of algorithms", 1971), at most
2 (1 + ln 2) n = 3.4 n; rounded up."""


@dataclass(frozen=True)
class Cost:
    """Operations and bytes of one token."""

    flops: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.flops + other.flops, self.bytes + other.bytes)

    def times(self, count: int) -> "Cost":
        return Cost(count * self.flops, count * self.bytes)


@dataclass(frozen=True)
class Storage:
    """The storage of weights; a quantization applies to the gated matrices, and by `head_bits` to the head."""

    dtype: str
    quantization: Quantization = "none"

    @property
    def element(self) -> int:
        """Return the bytes of an unquantized weight and of an element of the KV cache."""
        return ELEMENT_BYTES[self.dtype]

    def matrix_bytes(self, outputs: Table, inputs: Table, kept_inputs: Table, together: Table) -> Table:
        """Return the bytes read of each W [outputs m, inputs n] for the columns of `kept_inputs` k; e bytes an element.

        `together` are the outputs of the linear layer that is quantized as one.

        none: e m k. int8, one scale an output: m k + e m. int4, a scale and a zero for each group of g inputs, which
        mixes kept and dropped ones and is therefore read whole: m k / 2 + 2 e m n / g. Raises WinaError where no
        group size fits.

        A spec: b bits a code, and s = 32 bits (16 where b is 8) of scale and zero for each group of g inputs, a last
        one of fewer included: (m k b + s m ceil(n / g)) / 8; e m k at 16 bits. Shared out by energy, b is the mean over
        the model, of kept inputs too, and s n / g counts scales and orders. In planes, an input has one scale, and
        gates read some planes of it: (m r + 16 k) / 8 with r bits of codes (`bits_read`); by energy, b includes
        the scale and a byte for each of the n inputs, which is always read.
        """
        if isinstance(self.quantization, QuantizationSpec):
            return self._spec_bytes(self.quantization, outputs, inputs, kept_inputs, together)
        if self.quantization == "int8":
            return outputs * kept_inputs + self.element * outputs
        if self.quantization == "int4":
            return outputs * kept_inputs / 2 + 2 * self.element * outputs * inputs / _int4_groups(together, inputs)
        return self.element * outputs * kept_inputs

    def _spec_bytes(
        self, spec: QuantizationSpec, outputs: Table, inputs: Table, kept_inputs: Table, together: Table
    ) -> Table:
        bits: Table = np.full_like(outputs, spec.bits) if isinstance(spec.bits, float) else np.array(spec.bits.bits)
        scales = np.vectorize(group_scale_bits)(bits)
        if spec.quantizer == "planes":
            codes, shared = bits, isinstance(spec.bits, float)
            if spec.by_energy:
                codes = code_bits(bits, outputs, inputs, together, shared=shared)
            quantized = bits_read(codes, outputs, inputs, kept_inputs, together, numbered=spec.by_energy) / 8
        elif spec.by_energy and isinstance(spec.bits, float):
            quantized = outputs * (kept_inputs * bits + inputs * scales / spec.group) / 8
        else:
            quantized = outputs * (kept_inputs * bits + scales * np.ceil(inputs / spec.group)) / 8
        return np.where(bits < 16, quantized, self.element * outputs * kept_inputs)

    def head_bytes(self, weights: float, inputs: int) -> float:
        """Return the bytes of a head of `weights` weights whose rows have `inputs`."""
        spec = self.quantization
        if not isinstance(spec, QuantizationSpec) or spec.head_bits == 16:
            return self.element * weights
        scales = group_scale_bits(spec.head_bits) * math.ceil(inputs / spec.group) / inputs
        return weights * (spec.head_bits + scales) / 8

    @property
    def has_own_head(self) -> bool:
        """Return whether the head is held beside an embedding that it is tied to."""
        return isinstance(self.quantization, QuantizationSpec) and self.quantization.head_bits < 16


def int4_group(outputs: int, inputs: int) -> int | None:
    """Return the first of INT4_GROUPS that divides a linear layer's inputs into an even number of groups, or None.

    The number is over all outputs; two groups share each byte.
    """
    return next((size for size in INT4_GROUPS if inputs % size == outputs * inputs % (2 * size) == 0), None)


def _int4_groups(outputs: Table, inputs: Table) -> Table:
    return np.vectorize(_int4_group, otypes=[float])(outputs, inputs)


@cache
def _int4_group(outputs: float, inputs: float) -> int:
    group = int4_group(int(outputs), int(inputs))
    if group is None:
        raise WinaError(
            f"int4 quantization takes groups of {INT4_GROUPS[-1]} inputs or more, but a matrix of this model has "
            f"{inputs:.0f} inputs and {outputs:.0f} outputs, which do not divide into them; choose int8."
        )
    return group


def projections(outputs: Table, sizes: Matrices, kept_inputs: Table, storage: Storage) -> Cost:
    """Return the cost of gated matrices [m, n] with k kept inputs: 2 m k operations, the bytes of k columns.

    Where outputs are dropped instead (CATS and up), m is the number of kept outputs, and k = n.
    """
    read = storage.matrix_bytes(outputs, sizes.inputs, kept_inputs, sizes.together)
    return Cost(total(2 * outputs * kept_inputs), total(read))


def low_rank(sizes: Matrices, rank: Table, storage: Storage) -> Cost:
    """Return the cost of R-Sparse's U_r S_r V_r^T of matrices [m, n]: 2 r (m + n) operations, e r (m + n) bytes."""
    weights = total(rank * (sizes.outputs + sizes.copies * sizes.inputs))
    return Cost(2 * weights, storage.element * weights)


def head(shape: ModelShape, storage: Storage) -> Cost:
    """Return the cost of the LM head and other dense matrices, w weights, tied or not: 2 w operations, e w bytes."""
    weights = shape.head_weights + shape.further_weights
    head_bytes = storage.head_bytes(shape.head_weights, shape.hidden_size)
    return Cost(2 * weights, head_bytes + storage.element * shape.further_weights)


def embedding(shape: ModelShape, storage: Storage) -> Cost:
    return Cost(0, storage.element * shape.embedding_row)


def attention(shape: ModelShape, context: int, storage: Storage) -> Cost:
    """Return the cost of scores, softmax and weighted values.

    With H query heads, G key-value heads of h elements, and C = min(context, window) positions: per layer
    H C (2 h + 6 + 2 h) operations, and 2 G h C elements of the KV cache.
    """
    positions = sum(context if window is None else min(context, window) for window in shape.windows)
    return Cost(
        shape.heads * positions * (4 * shape.head_dim + SOFTMAX),
        storage.element * 2 * shape.kv_heads * shape.head_dim * positions,
    )


def norms(shape: ModelShape, storage: Storage) -> Cost:
    """Return the cost of all norms: 4 operations per input of an RMSNorm, 7 of a LayerNorm; weights are read."""
    flops = RMS_NORM * shape.rms_norm_inputs + LAYER_NORM * shape.layer_norm_inputs
    return Cost(flops, storage.element * shape.norm_weights)


def elementwise(shape: ModelShape, storage: Storage) -> Cost:
    """Return the cost of biases, one addition each, residual additions, rotary embeddings and activations.

    Per layer 2 d residual additions, 3 operations for each rotated element of (H + G) heads, and per hidden unit of the
    MLP the activation and, with a gate, the product.
    """
    per_hidden_unit = 2 if "gate" in shape.layout.projections else 1
    down = shape.layout.projections.index("down")
    sizes = matrices(shape)
    hidden_units = int((sizes.inputs * sizes.copies)[:, down].sum())
    rotated = ROTARY * shape.rotary_dim * (shape.heads + shape.kv_heads)
    flops = shape.biases + shape.layout.layers * (2 * shape.hidden_size + rotated) + per_hidden_unit * hidden_units
    return Cost(flops, storage.element * shape.biases)


def shortcut_count(mode: str, layers: int) -> int:
    """Return the number of d x d matrices on the residual: per_site 2 L - 1, per_layer L - 1, else none.

    Per site, one is past each attention and each MLP but the last, whose basis the final norm takes over.
    """
    return {"per_site": 2 * layers - 1, "per_layer": layers - 1}.get(mode, 0)


def shortcuts(shape: ModelShape, mode: str, storage: Storage) -> Cost:
    """Return the cost of the shortcuts, w = d^2 weights each: 2 w operations, e w bytes."""
    weights = shortcut_count(mode, shape.layout.layers) * shape.hidden_size**2
    return Cost(2 * weights, storage.element * weights)


def further_held(shape: ModelShape, storage: Storage) -> float:
    """Return the bytes held beside the gated matrices: head, embeddings, other matrices, norms and biases.

    A tied head is held once, as the embedding, unless it is quantized.
    """
    biases = shape.biases + shape.idle_biases
    elements = shape.embedding_weights + shape.further_weights + shape.norm_weights + biases
    shared = shape.tied_head and not storage.has_own_head
    head_bytes = 0.0 if shared else storage.head_bytes(shape.head_weights, shape.hidden_size)
    return storage.element * elements + head_bytes


def gating(mask: Mask, storage: Storage) -> Cost:
    """Return the cost of one mask over n inputs.

    Scoring: a multiplication of each input by its column norm, which is read, where the method has norms. Deciding:
    `threshold` n comparisons; `topk` 4 n; `statistical` 4 n (sum, square, sum of squares, compare); `top_p` n
    ceil(log2 n) + 3 n (sort, sum, running sum, compare). Replacing dropped inputs by v, y = W (m * (x - v)) + W v: n
    subtractions, n values read (2 n where scores have centres of their own, one where all inputs share it), and m
    additions of the bias W v, which is read, in each matrix without a bias that uses the mask.
    """
    n = mask.inputs
    decisions = {
        "threshold": n,
        "topk": PARTITION * n,
        "statistical": 4 * n,
        "top_p": n * math.ceil(math.log2(n)) + 3 * n,
    }[mask.selection]
    scoring = Cost(n, NORM_BYTES * n) if mask.scaled else Cost()
    replacing = n * (mask.values + mask.scalars) + mask.added_biases
    read = n * mask.values + mask.scalars + mask.added_biases
    return scoring + Cost(decisions + replacing, storage.element * read)


# Estimated bits of matrices in planes of 2 bits, for weights and scores with normal distributions.
#
# The kernels read another plane of an input from the score on at which it lowers the squared error as much as the first
# plane does at the threshold (`wina_kernels.planes`).

_PLANE_BITS, _MOST_BITS = PLANES_BITS[-1], PLANES_BITS[0]
_MOST = _MOST_BITS // _PLANE_BITS
_NORMAL = NormalDist()
_QUANTILES = 4_096
"""Quantiles that represent a normal distribution."""
_LARGEST = 4.0
"""Largest weight of an input in standard deviations; estimates for the demo model are within a tenth of its gates'."""


def code_bits(bits: Table, outputs: Table, inputs: Table, together: Table, *, shared: bool) -> Table:
    """Return the bits of codes by energy, where `bits` hold scales and numbers of planes too.

    `together` are the outputs of the linear layer that is quantized as one; `shared` bits are the mean over the model.
    """
    beside: Table = (SCALE_BITS + NUMBER_BITS) / together
    if shared:
        beside = np.full_like(beside, np.average(beside, weights=outputs * inputs))
    return np.clip(bits - beside, _PLANE_BITS, _MOST_BITS)


def bits_read(
    codes: Table, outputs: Table, inputs: Table, kept_inputs: Table, together: Table, *, numbered: bool
) -> Table:
    """Return the bits read of W [outputs, inputs] of which gates keep `kept_inputs`, and all if they keep every input.

    `codes` are the mean bits of the codes, and `numbered` matrices have a number of planes for each input.
    """
    planes, read = codes / _PLANE_BITS, np.zeros_like(codes)
    for plane, share in enumerate(_shares(kept_inputs / inputs)):
        read += np.clip(planes - plane, 0.0, 1.0) * share
    beside = SCALE_BITS * kept_inputs + (NUMBER_BITS * inputs if numbered else 0.0)
    return outputs * (_PLANE_BITS * inputs * read + beside / together)


def _shares(kept_shares: Table) -> list[Table]:
    """Return for each plane the share of inputs whose plane gates read, if every input has it."""
    shares: list[Table] = np.vectorize(_shares_of, otypes=[float] * _MOST)(kept_shares)
    return shares


@lru_cache(maxsize=4_096)
def _shares_of(kept_share: float) -> tuple[float, ...]:
    if not 0 < kept_share < 1:
        return (float(kept_share > 0),) * _MOST
    threshold = _NORMAL.inv_cdf(1 - kept_share / 2)
    return (kept_share, *(2 * _NORMAL.cdf(-threshold * factor) for factor in _ladder()))


@cache
def _ladder() -> tuple[float, ...]:
    """Return the score from which the second, third, ... plane is read, over that from which an input is kept."""
    weights = np.array([_NORMAL.inv_cdf((index + 0.5) / _QUANTILES) for index in range(_QUANTILES)])
    errors = [1.0]
    for plane in range(1, _MOST + 1):
        step = 2 * _LARGEST / 4**plane
        errors.append(float(((weights - (np.floor(weights / step) + 0.5) * step) ** 2).mean()))
    gains = -np.diff(errors)
    return tuple(np.sqrt(gains[0] / gains[1:]).tolist())


RUN_BITS = (16, 8, 6, 4, 3, 2)
"""Bits of a run's codes, falling."""
ORDER_BITS = 32
"""Bits of an input's place in the order of a matrix whose inputs are ordered by energy."""
SCALE_BITS = 16
"""Bits of a group's scale, and of its zero."""
NUMBER_BITS = 8
"""Bits of an input's number of planes, where inputs have different numbers."""


def group_scale_bits(bits: float) -> int:
    """Return the bits of the scale and the zero of one group and output: none for floats, no zero for 8 bits."""
    return {16: 0, 8: SCALE_BITS}.get(int(bits), 2 * SCALE_BITS)


def gated_bytes(shape: ModelShape, storage: Storage) -> float:
    """Return the bytes held by the gated matrices, with scales and zeros, those of all experts included."""
    tables = matrices(shape)
    return total(storage.matrix_bytes(tables.outputs, tables.inputs, tables.inputs, tables.together) * tables.held)
