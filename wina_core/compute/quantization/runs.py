"""Runs of equal bits along a matrix's inputs, ordered by energy: reverse water-filling with measured errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from wina_core.model_info.cost.bits import RUN_BITS, group_scale_bits

Floats = NDArray[np.float64]

MOST_RUNS = 4
_PLACES = 64
"""Most places where a run may begin, spread evenly."""
_STEP = 16
"""Inputs of which a run is a multiple, at least; it may end within a group, whose scales it then takes whole."""


@dataclass(frozen=True)
class Run:
    """Consecutive inputs of equal bits."""

    inputs: int
    bits: int


def places(inputs: int) -> NDArray[np.int64]:
    """Return the places where a run may begin or end, 0 and `inputs` included."""
    step = _STEP * max(1, -(-inputs // (_STEP * _PLACES)))
    return np.array([*range(0, inputs, step), inputs])


def run_bits(run: Run, group: int) -> int:
    """Return the bits that one output's weights of a run take, scales and zeros included."""
    return run.inputs * run.bits + group_scale_bits(run.bits) * -(-run.inputs // group)


def total_error(errors: Floats, runs: Sequence[Run]) -> float:
    """Return the summed error of inputs [inputs, len(RUN_BITS)] in these runs."""
    edges = np.cumsum([0, *(run.inputs for run in runs)])
    parts = zip(pairwise(edges), runs, strict=True)
    return float(sum(errors[start:stop, RUN_BITS.index(run.bits)].sum() for (start, stop), run in parts))


class RunChoice:
    """The choice of at most MOST_RUNS runs of falling bits for one matrix of `outputs` outputs.

    `errors` [inputs, len(RUN_BITS)] is the error of each input, ordered by falling energy, at each number of bits.
    """

    def __init__(self, errors: Floats, outputs: int, group: int) -> None:
        self._errors, self._outputs, self._group = errors, outputs, group
        self._ends = places(len(errors))
        self._sums = np.vstack((np.zeros(len(RUN_BITS)), errors.cumsum(0)))[self._ends]
        lengths = self._ends[None, :] - self._ends[:, None]
        groups = -(-lengths // group)
        self._held = [lengths * bits + group_scale_bits(bits) * groups for bits in RUN_BITS]
        """Bits of one output's weights between two places, by width."""
        self._backward = np.tril(np.ones_like(lengths, dtype=bool))

    def error(self, runs: Sequence[Run]) -> float:
        """Return the error of these runs."""
        return total_error(self._errors, runs)

    def held(self, runs: Sequence[Run]) -> int:
        """Return the bits that the matrix holds in these runs, without the order."""
        return self._outputs * sum(run_bits(run, self._group) for run in runs)

    def single(self, price: float) -> tuple[Run, ...]:
        """Return the one run with the least error + price * bits held."""
        whole = [(Run(len(self._errors), bits),) for bits in RUN_BITS]
        return min(whole, key=lambda runs: self.error(runs) + price * self.held(runs))

    def at_price(self, price: float) -> tuple[Run, ...]:
        """Return the runs with the least error + price * bits held, by dynamic programming over widths and places."""
        costs = [
            np.where(
                self._backward,
                np.inf,
                self._sums[None, :, width] - self._sums[:, None, width] + price * self._outputs * held,
            )
            for width, held in enumerate(self._held)
        ]
        best = {(1, width): cost[0] for width, cost in enumerate(costs)}
        """Least cost up to each place, by number of runs and width of the last."""
        before: dict[tuple[int, int], tuple[NDArray[np.intp], NDArray[np.intp]]] = {}
        for count in range(2, MOST_RUNS + 1):
            for width in range(count - 1, len(RUN_BITS)):
                wider = np.stack([best[count - 1, each] for each in range(count - 2, width)])
                total = wider.min(0)[:, None] + costs[width]
                start = total.argmin(0)
                best[count, width] = total.min(0)
                before[count, width] = start, wider.argmin(0) + count - 2
        count, width = min(best, key=lambda key: best[key][-1])
        runs, stop = [], len(self._ends) - 1
        while count > 1:
            start, wider_width = before[count, width]
            begin = int(start[stop])
            runs.append(Run(int(self._ends[stop] - self._ends[begin]), RUN_BITS[width]))
            count, width, stop = count - 1, int(wider_width[begin]), begin
        runs.append(Run(int(self._ends[stop]), RUN_BITS[width]))
        return tuple(reversed(runs))

    def within(self, budget: float) -> tuple[Run, ...] | None:
        """Return the runs with the least error that hold at most `budget` bits, exactly; None if none do."""
        best: tuple[float, tuple[Run, ...] | None] = (np.inf, None)
        for count in range(1, MOST_RUNS + 1):
            for widths in combinations(range(len(RUN_BITS)), count):
                error, cuts = self._best_cuts(widths, budget / self._outputs)
                if error < best[0]:
                    edges = self._ends[[0, *cuts, len(self._ends) - 1]]
                    parts = zip(pairwise(edges), widths, strict=True)
                    best = error, tuple(Run(int(stop - start), RUN_BITS[width]) for (start, stop), width in parts)
        return best[1]

    def _best_cuts(self, widths: Sequence[int], budget: float) -> tuple[float, tuple[int, ...]]:
        """Return the least error with exactly these widths, and the places between the runs; infinity if none fits.

        All cuts but the last are enumerated; all last ones are compared at once.
        """
        sums, end = self._sums, len(self._ends) - 1
        if len(widths) == 1:
            return (float(sums[end, widths[0]]), ()) if self._held[widths[0]][0, end] <= budget else (np.inf, ())
        best: tuple[float, tuple[int, ...]] = (np.inf, ())
        *firsts, second, last = widths
        for inner in combinations(range(1, end - 1), len(firsts)):
            edges = (0, *inner)
            held = sum(int(self._held[width][edge]) for width, edge in zip(firsts, pairwise(edges), strict=True))
            error = sum(
                sums[stop, w] - sums[start, w] for w, (start, stop) in zip(firsts, pairwise(edges), strict=True)
            )
            cuts = np.arange(edges[-1] + 1, end)
            bits = held + self._held[second][edges[-1], cuts] + self._held[last][cuts, end]
            errors = error + sums[cuts, second] - sums[edges[-1], second] + sums[end, last] - sums[cuts, last]
            errors = np.where(bits <= budget, errors, np.inf)
            if len(errors) and errors.min() < best[0]:
                best = float(errors.min()), (*inner, int(cuts[errors.argmin()]))
        return best
