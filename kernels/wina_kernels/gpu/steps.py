# mypy: disable-error-code="no-untyped-def, assignment"
"""The kernels of a decoding step between its products: attention of one new token, the sum with the residual stream and
its norm, and the gated unit of an MLP.

A product of a decoding step leaves the sums of its shares in memory. The kernel that follows adds them while it loads
them, so that no launch is spent on that. A kernel that needs a number of the whole grid, such as a norm, has no
barrier for the grid: each program stores its part and counts itself, and the one that counts last reads all parts
and finishes. It adds them in a fixed order, so the result does not depend on which program that is.

Attention is one launch: rotary embedding, the cache's new entry, and softmax over the cache. Programs share the cache
of each head of keys by positions, block after block in turn, and by a few heads of queries, whose sums a thread can
hold. The last one to arrive for these heads joins their results in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from wina_kernels.gpu import operands
from wina_kernels.gpu.shares import OPTIONS

ATTENTION_BLOCK = 32
"""Positions that a program reads at a time."""
WARPS = 4
MOST_SPLITS = 16
MOST_QUERIES = 4
"""Heads of queries of a program: more need more registers than there are."""


@triton.jit
def _turned_head(
    sums, bias, gain, epsilon, cosine, sine, first, length, half,
    dtype: tl.constexpr, SHARES: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """Return both halves [HALF] of a head of queries or keys, normalized if there is a gain, and rotated."""
    at = tl.arange(0, HALF)
    inside = at < half
    low = product_at(sums, bias, first + at, inside, length, dtype, SHARES)
    high = product_at(sums, bias, first + half + at, inside, length, dtype, SHARES)
    if gain is not None:
        scale = tl.rsqrt((tl.sum(low * low) + tl.sum(high * high)) / (2 * half) + epsilon)
        low_gain = tl.load(gain + at, inside, 0.0).to(tl.float32)
        high_gain = tl.load(gain + half + at, inside, 0.0).to(tl.float32)
        low = (low_gain * (low * scale).to(dtype).to(tl.float32)).to(dtype).to(tl.float32)
        high = (high_gain * (high * scale).to(dtype).to(tl.float32)).to(dtype).to(tl.float32)
    # Rounded after each operation, as transformers computes in the model's dtype.
    turned_low = (low * cosine).to(dtype).to(tl.float32) - (high * sine).to(dtype).to(tl.float32)
    turned_high = (high * cosine).to(dtype).to(tl.float32) + (low * sine).to(dtype).to(tl.float32)
    return turned_low.to(dtype).to(tl.float32), turned_high.to(dtype).to(tl.float32)


@triton.jit
def attention_kernel(
    sums, bias, query_gain, key_gain, epsilon, cosines, sines, position, keys, values, out, partial, counters,
    capacity, heads, group, half, window, scale,
    SHARES: tl.constexpr, QUERIES: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Set out [heads, 2 half] on a grid of heads of keys, splits of the cache, and QUERIES of a group's heads.

    sums: [SHARES, (heads + 2 heads of keys) * 2 half]; cosines, sines: float32 [any, half]; position: int64 [1], that
    of the token; keys, values: [heads of keys, capacity, 2 half]; partial: float32 [parts, heads of keys, SPLITS,
    QUERIES, 2 + 2 HALF]; counters: int32 [parts, heads of keys], 0. If a group's heads are no multiple of QUERIES, its
    last head is computed again, with the same result; so are keys and values by each part.
    """
    dtype: tl.constexpr = out.dtype.element_ty
    head, split, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    kv_heads = tl.num_programs(0)
    size = 2 * half
    length = (heads + 2 * kv_heads) * size
    at = tl.arange(0, HALF)
    inside = at < half
    full = tl.arange(0, 2 * HALF)
    whole = full < size
    # From memory, not an argument: a captured graph repeats its arguments in every replay.
    own = tl.load(position)
    cosine = tl.load(cosines + own * half + at, inside, 0.0)
    sine = tl.load(sines + own * half + at, inside, 0.0)
    lows = ()
    highs = ()
    for query in tl.static_range(QUERIES):
        first = (head * group + tl.minimum(part * QUERIES + query, group - 1)) * size
        low, high = _turned_head(
            sums, bias, query_gain, epsilon, cosine, sine, first, length, half, dtype, SHARES, HALF
        )
        lows += (low * scale,)
        highs += (high * scale,)
    cache = head.to(tl.int64) * capacity * size
    tops = ()
    weights = ()
    means = ()
    # Only the first split adds the token's own entry: other programs cannot know when it is in the cache.
    if split == 0:
        low, high = _turned_head(
            sums, bias, key_gain, epsilon, cosine, sine, (heads + head) * size, length, half, dtype, SHARES, HALF
        )
        value = product_at(sums, bias, (heads + kv_heads + head) * size + full, whole, length, dtype, SHARES)
        tl.store(keys + cache + own * size + at, low, inside)
        tl.store(keys + cache + own * size + half + at, high, inside)
        tl.store(values + cache + own * size + full, value, whole)
        # The own key and value stay in registers: loops over the cache end before this position.
        is_own = 1.0
    else:
        low = tl.zeros((HALF,), tl.float32)
        high = tl.zeros((HALF,), tl.float32)
        value = tl.zeros((2 * HALF,), tl.float32)
        is_own = 0.0
    for query in tl.static_range(QUERIES):
        score = tl.sum(lows[query] * low) + tl.sum(highs[query] * high)
        tops += (tl.where(is_own > 0.0, score, -1e30),)
        weights += (is_own,)
        means += (value,)
    begin = tl.where(window > 0, tl.maximum(own - window + 1, 0), 0)
    for block in range(begin + split * BLOCK, own, SPLITS * BLOCK):
        there = block + tl.arange(0, BLOCK)
        read = there < own
        rows = cache + there[:, None] * size
        low_keys = tl.load(keys + rows + at[None, :], read[:, None] & inside[None, :], 0.0).to(tl.float32)
        high_keys = tl.load(keys + rows + half + at[None, :], read[:, None] & inside[None, :], 0.0).to(tl.float32)
        read_values = tl.load(values + rows + full[None, :], read[:, None] & whole[None, :], 0.0).to(tl.float32)
        next_tops = ()
        next_weights = ()
        next_means = ()
        for query in tl.static_range(QUERIES):
            scores = tl.sum(low_keys * lows[query][None, :] + high_keys * highs[query][None, :], axis=1)
            scores = tl.where(read, scores, -1e30)
            top = tl.maximum(tops[query], tl.max(scores))
            # Softmax in one pass: what was summed so far shrinks when a larger score appears.
            shrink = tl.exp(tops[query] - top)
            parts = tl.where(read, tl.exp(scores - top), 0.0)
            next_tops += (top,)
            next_weights += (weights[query] * shrink + tl.sum(parts),)
            next_means += (means[query] * shrink + tl.sum(parts[:, None] * read_values, axis=0),)
        tops = next_tops
        weights = next_weights
        means = next_means
    unit = part * kv_heads + head
    line = partial + (unit * SPLITS + split).to(tl.int64) * QUERIES * (2 + 2 * HALF)
    for query in tl.static_range(QUERIES):
        place = line + query * (2 + 2 * HALF)
        tl.store(place, tops[query])
        tl.store(place + 1, weights[query])
        tl.store(place + 2 + full, means[query])
    if is_last(counters + unit, SPLITS):
        # `.cg` bypasses the L1 cache, which does not see the stores of other multiprocessors.
        lines = (unit * SPLITS + tl.arange(0, SPLITS)).to(tl.int64) * QUERIES * (2 + 2 * HALF)
        for query in tl.static_range(QUERIES):
            places = partial + lines + query * (2 + 2 * HALF)
            # .cg reads the second-level cache: the first-level one of this multiprocessor may hold older values.
            top = tl.load(places, cache_modifier=".cg")
            shrink = tl.exp(top - tl.max(top))
            weight = tl.sum(shrink * tl.load(places + 1, cache_modifier=".cg"))
            mean = tl.load(places[:, None] + 2 + full[None, :], cache_modifier=".cg")
            first = (head * group + tl.minimum(part * QUERIES + query, group - 1)) * size
            tl.store(out + first + full, tl.sum(shrink[:, None] * mean, axis=0) / weight, whole)


@dataclass(frozen=True, eq=False)
class Attention:
    """Sizes, tables and scratch of a model's attention to one sequence; the layers take turns with them."""

    heads: int
    kv_heads: int
    cosines: Tensor
    """Float32 [positions, head size / 2], rounded to the model's dtype."""
    sines: Tensor
    position: Tensor
    """Int64 [1]: the position of the token that is read."""
    partial: Tensor
    counters: Tensor

    @classmethod
    def of(cls, heads: int, kv_heads: int, cosines: Tensor, sines: Tensor) -> Attention:
        """Allocate the scratch for caches of as many positions as the tables have."""
        half, device = cosines.shape[1], cosines.device
        splits = min(triton.next_power_of_2(triton.cdiv(len(cosines), ATTENTION_BLOCK)), MOST_SPLITS)
        queries = min(heads // kv_heads, MOST_QUERIES)
        parts = triton.cdiv(heads // kv_heads, queries)
        numbers = 2 + 2 * triton.next_power_of_2(half)
        return cls(
            heads, kv_heads, cosines, sines,
            position=torch.zeros(1, dtype=torch.int64, device=device),
            partial=torch.empty(parts, kv_heads, splits, queries, numbers, device=device),
            counters=torch.zeros(parts, kv_heads, dtype=torch.int32, device=device),
        )  # fmt: skip

    def __call__(
        self,
        sums: Tensor,
        bias: Tensor | None,
        gains: tuple[Tensor, Tensor, float] | None,
        keys: Tensor,
        values: Tensor,
        out: Tensor,
        scale: float,
        window: int = 0,
    ) -> None:
        """Set out [heads * head size] from the sums [shares, q, k and v] and bias of the products.

        keys, values: [kv heads, capacity, head size], contiguous, of which earlier positions are read and the token's
        is written. `gains` are those of queries and keys, with their epsilon, if heads are normalized. `window` is
        the number of positions seen, the token's included; 0 for all.
        """
        query_gain, key_gain, epsilon = gains or (None, None, 0.0)
        half = self.cosines.shape[1]
        parts, _, splits, queries, _ = self.partial.shape
        with operands.current(out.device):
            attention_kernel[(self.kv_heads, splits, parts)](
                sums, bias, query_gain, key_gain, epsilon, self.cosines, self.sines, self.position, keys, values, out,
                self.partial, self.counters, keys.shape[1], self.heads, self.heads // self.kv_heads,
                half, window, scale, len(sums), queries, triton.next_power_of_2(half), ATTENTION_BLOCK, splits,
                num_warps=WARPS, **OPTIONS,
            )  # fmt: skip


NORM_BLOCK = 64
"""Elements of a program: many programs, because each adds shares at the speed of one multiprocessor."""


@triton.jit
def add_norm_kernel(
    stream, sums, bias, gain, out, squares, counter, n, epsilon,
    SHARES: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Set stream [n] += product and out [n] = gain * stream / rms(stream), on a grid of blocks of n.

    sums: [SHARES, n], or None to add nothing; squares: float32 [PROGRAMS], scratch; counter: int32 [1], 0.
    """
    dtype: tl.constexpr = stream.dtype.element_ty
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    own = tl.load(stream + at, inside, 0.0).to(tl.float32)
    if sums is not None:
        own = (own + product_at(sums, bias, at, inside, n, dtype, SHARES)).to(dtype).to(tl.float32)
        tl.store(stream + at, own, inside)
    tl.store(squares + tl.program_id(0), tl.sum(own * own))
    if is_last(counter, tl.num_programs(0)):
        of = tl.arange(0, PROGRAMS)
        # .cg: see `attention_kernel`.
        total = tl.sum(tl.load(squares + of, of < tl.num_programs(0), 0.0, cache_modifier=".cg"))
        whole = tl.arange(0, WHOLE)
        within = whole < n
        values = tl.load(stream + whole, within, 0.0, cache_modifier=".cg").to(tl.float32)
        normalized = (values * tl.rsqrt(total / n + epsilon)).to(dtype).to(tl.float32)
        tl.store(out + whole, normalized * tl.load(gain + whole, within, 0.0).to(tl.float32), within)


def add_norm(
    stream: Tensor,
    sums: Tensor | None,
    bias: Tensor | None,
    gain: Tensor,
    epsilon: float,
    out: Tensor,
    squares: Tensor,
    counter: Tensor,
) -> None:
    """Add the sums [shares, n] and bias [n] to stream [n] in place, and set out [n] to gain times its RMS norm.

    Rounds as transformers does: the product, the stream and the normalized stream to the stream's dtype. `sums` None
    adds nothing. Scratch: squares float32 [ceil(n / NORM_BLOCK)] or more, counter int32 [1 or more], zero.
    """
    n = stream.numel()
    programs = triton.cdiv(n, NORM_BLOCK)
    with operands.current(stream.device):
        add_norm_kernel[(programs,)](
            stream, sums, bias, gain, out, squares, counter, n, epsilon, 0 if sums is None else len(sums), NORM_BLOCK,
            triton.next_power_of_2(programs), triton.next_power_of_2(n), num_warps=WARPS, **OPTIONS,
        )  # fmt: skip


ACTIVATION_BLOCK = 128


@triton.jit
def silu_mul_kernel(sums, bias, out, units, SHARES: tl.constexpr, BLOCK: tl.constexpr):
    """Set out [units] = silu(gate) * up on a grid of blocks; sums: [SHARES, 2 units], gate first."""
    dtype: tl.constexpr = out.dtype.element_ty
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < units
    gate = product_at(sums, bias, at, inside, 2 * units, dtype, SHARES)
    up = product_at(sums, bias, at + units, inside, 2 * units, dtype, SHARES)
    activated = (gate / (1.0 + tl.exp(-gate))).to(dtype).to(tl.float32)
    tl.store(out + at, activated * up, inside)


def silu_mul(sums: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """Set out [units] to silu(gate) * up of sums [shares, 2 units] and bias [2 units], gate first.

    Rounds the products and the activation to out's dtype, as transformers does.
    """
    units = out.numel()
    with operands.current(out.device):
        silu_mul_kernel[(triton.cdiv(units, ACTIVATION_BLOCK),)](
            sums, bias, out, units, len(sums), ACTIVATION_BLOCK, num_warps=WARPS, **OPTIONS
        )


@triton.jit
def share_sum(sums, at, inside, length, SHARES: tl.constexpr):
    """Return sums[0, at] + ... + sums[SHARES - 1, at], float32 of the shape of `at`, int [any]."""
    # One load of all shares rather than a loop: all are in flight together.
    lines = tl.arange(0, SHARES).to(tl.int64)[:, None] * length
    return tl.sum(tl.load(sums + lines + at[None, :], inside[None, :], 0.0).to(tl.float32), axis=0)


@triton.jit
def product_at(sums, bias, at, inside, length, dtype: tl.constexpr, SHARES: tl.constexpr):
    """Return a product with its bias, if any, rounded to the model's dtype, as float32."""
    y = share_sum(sums, at, inside, length, SHARES)
    if bias is not None:
        y += tl.load(bias + at, inside, 0.0).to(tl.float32)
    return y.to(dtype).to(tl.float32)


@triton.jit
def is_last(counter, programs):
    """Return whether this is the last of the programs that call it, so that it can read what the others have stored.

    counter: int32 [1], 0. The last program sets it back to 0 for the next launch.
    """
    tl.debug_barrier()  # the atomic is one thread's: what the others have stored must come before
    last = tl.atomic_add(counter, 1, sem="acq_rel") == programs - 1
    if last:
        tl.store(counter, 0)
    return last
