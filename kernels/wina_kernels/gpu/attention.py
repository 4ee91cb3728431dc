# mypy: disable-error-code="no-untyped-def, assignment"
"""Attention of one new token, in one launch: rotary embedding, the cache's new entry, and softmax over the cache.

Programs share the cache of each head of keys by positions, block after block in turn, and by a few heads of queries,
whose sums a thread can hold. The last one to arrive for these heads joins their results in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from wina_kernels.gpu import operands
from wina_kernels.gpu.program_sync import is_last, product_at
from wina_kernels.gpu.shares import OPTIONS

BLOCK = 32
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
    QUERIES, 2 + 2 HALF]; counters: int32 [parts, heads of keys], 0. A group's last head is computed again, with the
    same result, where its heads are no multiple of QUERIES; so are keys and values by each part.
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
    if split == 0:
        low, high = _turned_head(
            sums, bias, key_gain, epsilon, cosine, sine, (heads + head) * size, length, half, dtype, SHARES, HALF
        )
        value = product_at(sums, bias, (heads + kv_heads + head) * size + full, whole, length, dtype, SHARES)
        tl.store(keys + cache + own * size + at, low, inside)
        tl.store(keys + cache + own * size + half + at, high, inside)
        tl.store(values + cache + own * size + full, value, whole)
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
        lines = (unit * SPLITS + tl.arange(0, SPLITS)).to(tl.int64) * QUERIES * (2 + 2 * HALF)
        for query in tl.static_range(QUERIES):
            places = partial + lines + query * (2 + 2 * HALF)
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
        splits = min(triton.next_power_of_2(triton.cdiv(len(cosines), BLOCK)), MOST_SPLITS)
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
        is written. `gains` are those of queries and keys, with their epsilon, where heads are normalized. `window` is
        the number of positions seen, the token's included; 0 for all.
        """
        query_gain, key_gain, epsilon = gains or (None, None, 0.0)
        half = self.cosines.shape[1]
        parts, _, splits, queries, _ = self.partial.shape
        with operands.current(out.device):
            attention_kernel[(self.kv_heads, splits, parts)](
                sums, bias, query_gain, key_gain, epsilon, self.cosines, self.sines, self.position, keys, values, out,
                self.partial, self.counters, keys.shape[1], self.heads, self.heads // self.kv_heads,
                half, window, scale, len(sums), queries, triton.next_power_of_2(half), BLOCK, splits,
                num_warps=WARPS, **OPTIONS,
            )  # fmt: skip
