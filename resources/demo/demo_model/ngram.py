"""The baseline: an interpolated n-gram model with modified Kneser-Ney smoothing.

Chen and Goodman, "An empirical study of smoothing techniques for language modeling" (1999), section 3. It models any
sequence of small integers, bytes or tokens. An n-gram (w1 .. wn) over V symbols is stored as the number w1..wn in base
V: `% V ** (n - 1)` drops the oldest symbol, `// V` the newest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from demo_model.corpus import Document

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

ORDER = 5


@dataclass(frozen=True)
class Level:
    """The sorted n-grams of one length n, with their contributions to a probability.

    p(w | h) = own(h w) + backoff(h) * p(w | h without its oldest symbol), with own = 0 and backoff = 1 if unseen.
    """

    grams: Integers
    own: Floats
    contexts: Integers
    backoff: Floats


def discounts(counts: Integers) -> Floats:
    """Return the discounts of counts of 0, 1, 2 and 3 or more [4], from the counts of counts (equation 17)."""
    once, twice, thrice, four = (max(int(np.sum(counts == n)), 1) for n in (1, 2, 3, 4))
    y = once / (once + 2 * twice)
    raw = np.array([0.0, 1 - 2 * y * twice / once, 2 - 3 * y * thrice / twice, 3 - 4 * y * four / thrice])
    # On tiny texts the estimates leave the range in which probabilities stay positive.
    return np.clip(raw, [0.0, 0.1, 0.1, 0.1], [0.0, 0.9, 1.8, 2.7])


def make_level(grams: Integers, counts: Integers, vocabulary: int) -> Level:
    """Build a level from sorted unique `grams` and their `counts` (or numbers of distinct preceding symbols)."""
    taken = discounts(counts)[np.minimum(counts, 3)]
    contexts, first = np.unique(grams // vocabulary, return_index=True)
    totals = np.add.reduceat(counts, first)
    backoff = np.add.reduceat(taken, first) / totals
    own = (counts - taken) / np.repeat(totals, np.diff(np.append(first, len(grams))))
    return Level(grams, own, contexts, backoff)


def look_up(keys: Integers, values: Floats, queries: Integers, missing: float) -> Floats:
    """Return `values` at the positions where the sorted `keys` equal `queries`, `missing` elsewhere."""
    position = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(keys[position] == queries, values[position], missing)


def encode(sequence: Integers, vocabulary: int, order: int) -> Integers:
    """Return the n-gram that ends at each position of `sequence` [n]; symbol 0, the separator, precedes it."""
    padded = np.concatenate([np.zeros(order - 1, np.int64), sequence])
    grams = np.zeros(len(sequence), np.int64)
    for offset in range(order):
        grams = grams * vocabulary + padded[offset : offset + len(sequence)]
    return grams


@dataclass(frozen=True)
class NGram:
    """An n-gram model: `levels[k]` holds the (k + 1)-grams."""

    vocabulary: int
    levels: tuple[Level, ...]

    @classmethod
    def fit(cls, sequence: Integers, vocabulary: int, order: int = ORDER) -> NGram:
        """Count `sequence` [n] of symbols in [0, vocabulary)."""
        if vocabulary**order >= 2**63:
            raise ValueError(f"{order}-grams over {vocabulary} symbols do not fit 64 bits")
        grams, counts = np.unique(encode(sequence, vocabulary, order), return_counts=True)
        levels = [make_level(grams, counts, vocabulary)]
        for length in range(order - 1, 0, -1):
            # Kneser-Ney: a shorter n-gram counts once for each distinct symbol seen before it.
            grams, counts = np.unique(grams % vocabulary**length, return_counts=True)
            levels.append(make_level(grams, counts, vocabulary))
        return cls(vocabulary, tuple(reversed(levels)))

    def probability(self, grams: Integers) -> Floats:
        """Return p(newest symbol | the others) for full-length n-grams [m] of `encode`."""
        result = np.full(len(grams), 1 / self.vocabulary)
        for length, level in enumerate(self.levels, start=1):
            short = grams % self.vocabulary**length
            own = look_up(level.grams, level.own, short, 0.0)
            result = own + look_up(level.contexts, level.backoff, short // self.vocabulary, 1.0) * result
        return result

    def bits(self, sequence: Integers) -> float:
        """Return -log2 p(sequence)."""
        return float(-np.log2(self.probability(encode(sequence, self.vocabulary, len(self.levels)))).sum())


def bytes_of(text: str) -> Integers:
    """Return UTF-8 as symbols in [0, 256)."""
    return np.frombuffer(text.encode(), np.uint8).astype(np.int64)


def byte_model(documents: list[Document]) -> NGram:
    """Return the model over bytes; a zero byte separates documents."""
    return NGram.fit(bytes_of("\0".join(document.text for document in documents)), 256)
