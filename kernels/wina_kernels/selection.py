"""Masks from scores: the K highest per token, or all whose transformed score exceeds a calibrated threshold.

A transformed score is monotone in a token's scores: the score itself (`threshold` selection), its distance from the
token's mean (`statistical`), or the share of the token's mass that is not above it (`top_p`). It is never negative. NaN
counts as above every threshold, so that its input is kept and shows.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

_SAME_WIDTH = {2: torch.int16, 4: torch.int32, 8: torch.int64}
# Python's threads suffice: numpy releases the interpreter's lock while it partitions.
_THREADS = ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="selection")
_WORTH_A_THREAD = 1 << 17
"""Scores per thread, about a tenth of a millisecond's work."""


def kept_inputs(inputs: int, sparsity: float) -> int:
    """Return K = n - floor(s n + 1/2), at least 1: the number dropped is s n rounded to nearest, halves up."""
    return max(1, inputs - math.floor(sparsity * inputs + 0.5))


def scores(x: Tensor, scale: Tensor | None) -> Tensor:
    """Return |x_i| * c_i for x [..., n], in the dtype of c, which is at least float32; c None for 1."""
    magnitude = x.detach().abs()
    return magnitude if scale is None else magnitude.to(scale.dtype).mul_(scale)


def deviation_scores(scores: Tensor) -> Tensor:
    """Return exp((score - mean) / deviation) over each token's scores [..., n], in their dtype, at least float32.

    The threshold of Spark Transformer's statistical top-k (You et al., 2025) is mean + z * deviation, z a quantile of
    the normal distribution; scores here are magnitudes, so z = log(threshold) is calibrated. No sort. Capped at e^80.
    """
    exact = scores.to(torch.promote_types(scores.dtype, torch.float32))
    deviation, mean = torch.std_mean(exact, dim=-1, correction=0, keepdim=True)
    # Equal scores have deviation 0, and 0 / 0 would be NaN, which counts as kept.
    return ((exact - mean) / deviation.clamp(min=torch.finfo(exact.dtype).tiny)).clamp(max=80.0).exp()


def mass_scores(scores: Tensor) -> Tensor:
    """Return 1 - (sum of the strictly larger scores) / (sum of all) over each token's scores [..., n], float64 in [0,
    1].

    Keeping scores above 1 - p keeps the smallest set of highest scores with the mass p: the top-p rule of Szatkowski et
    al., "Universal Properties of Activation Sparsity in Modern Large Language Models" (2025). Equal scores go together.
    Sorts every token.
    """
    ordered = scores.sort(dim=-1).values
    mass = ordered.to(torch.float64).cumsum(-1)
    # From the right: the last of equal scores, so that equals get the same mass.
    last = torch.searchsorted(ordered, scores.contiguous(), right=True) - 1
    total = mass[..., -1:]
    return mass.gather(-1, last.clamp(min=0)) / total.clamp(min=torch.finfo(torch.float64).tiny)


def threshold_mask(scores: Tensor, threshold: float, fewest: int = 0) -> Tensor:
    """Return a mask, bool [..., n]: True unless score <= threshold, and at the `fewest` highest of each row at least.

    A negative threshold keeps everything.
    """
    # Compared with a 16-bit tensor, torch would round the threshold to 16 bits first. Not `gt`, which would drop NaN.
    mask = (scores.float() if scores.element_size() == 2 else scores).le(threshold).logical_not_()
    if fewest:
        few = mask.sum(-1, dtype=torch.int32) < fewest
        if few.any():
            mask[few] = top_k_mask(scores[few], fewest)
    return mask


def top_k_mask(scores: Tensor, keep: int) -> Tensor:
    """Return True at the `keep` highest scores of each row, bool [..., n]: exactly `keep`, the lower index first among
    equals.

    Scores must be non-negative: they then order like their bits, and integers partition fastest. NaN is above
    everything.
    """
    bits = scores.contiguous().view(_SAME_WIDTH[scores.element_size()])
    # Without the sign bit, -0 equals 0, and NaN of either sign is above infinity.
    keys = bits & torch.iinfo(bits.dtype).max
    threshold = _kth_largest(keys, keep).unsqueeze(-1)
    mask = keys >= threshold
    tied = mask.sum(-1, dtype=torch.int32) > keep
    if tied.any():
        mask[tied] = _lowest_indices_among_equals(keys[tied], threshold[tied], keep)
    return mask


def _kth_largest(keys: Tensor, k: int) -> Tensor:
    """Return the k-th largest of each row, [...]."""
    ascending = keys.shape[-1] - k
    if keys.device.type != "cpu":
        return torch.kthvalue(keys, ascending + 1, dim=-1).values
    # numpy partitions with vector instructions, several times faster than torch, but on one thread.
    rows = keys.view(-1, keys.shape[-1]).numpy()
    threads = min(torch.get_num_threads(), rows.size // _WORTH_A_THREAD)
    if threads < 2:
        return torch.from_numpy(_nth(rows, ascending)).view(keys.shape[:-1])
    thresholds = _THREADS.map(lambda chunk: _nth(chunk, ascending), np.array_split(rows, threads))
    return torch.from_numpy(np.concatenate(list(thresholds))).view(keys.shape[:-1])


def _nth(rows: "np.ndarray[Any, np.dtype[Any]]", ascending: int) -> "np.ndarray[Any, np.dtype[Any]]":
    return np.ascontiguousarray(np.partition(rows, ascending, axis=-1)[:, ascending])


def _lowest_indices_among_equals(keys: Tensor, threshold: Tensor, keep: int) -> Tensor:
    above = keys > threshold
    equal = keys == threshold
    room = keep - above.sum(-1, keepdim=True)
    return above | (equal & (equal.cumsum(-1) <= room))
