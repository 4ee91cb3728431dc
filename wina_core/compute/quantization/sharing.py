"""Bits shared out among the inputs of matrices by energy, for a mean over the model or for each matrix of a plan.

Runs of equal bits along the ordered inputs: reverse water-filling with measured errors. Planes of bits: the ones first
that save most divergence for each bit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from wina_kernels.planes import MOST_PLANES, PLANE_BITS, in_planes

from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.quantization.inputs import QuantizationSite, mean_squares, output_sensitivities, sites_of
from wina_core.compute.quantization.rounding import reverse_cholesky, round_to_nearest
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.model_info.cost.terms import NUMBER_BITS, ORDER_BITS, RUN_BITS, SCALE_BITS, group_scale_bits
from wina_core.specs import BitsPlan, QuantizationSpec

Floats = NDArray[np.float64]

MOST_RUNS = 4
_MAX_EDGES = 64
"""Most places where a run may begin, spread evenly."""
_STEP = 16
"""Inputs of which a run is a multiple, at least; it may end within a group, whose scales it then takes whole."""


@dataclass(frozen=True)
class BitsRun:
    """Consecutive inputs of equal bits."""

    inputs: int
    bits: int


def run_edges(inputs: int) -> NDArray[np.int64]:
    """Return the places where a run may begin or end, 0 and `inputs` included."""
    step = _STEP * max(1, -(-inputs // (_STEP * _MAX_EDGES)))
    return np.array([*range(0, inputs, step), inputs])


def run_bits(run: BitsRun, group: int) -> int:
    """Return the bits that one output's weights of a run take, scales and zeros included."""
    return run.inputs * run.bits + group_scale_bits(run.bits) * -(-run.inputs // group)


class RunChoice:
    """The choice of at most MOST_RUNS runs of falling bits for one matrix of `outputs` outputs.

    `errors` [inputs, len(RUN_BITS)] is the error of each input, ordered by falling energy, at each number of bits.
    """

    def __init__(self, errors: Floats, outputs: int, group: int) -> None:
        self._errors, self._outputs, self._group = errors, outputs, group
        self._ends = run_edges(len(errors))
        self._sums = np.vstack((np.zeros(len(RUN_BITS)), errors.cumsum(0)))[self._ends]
        lengths = self._ends[None, :] - self._ends[:, None]
        groups = -(-lengths // group)
        self._held = [lengths * bits + group_scale_bits(bits) * groups for bits in RUN_BITS]
        """Bits of one output's weights between two places, by width."""
        # True where a run would end at or before its beginning.
        self._backward = np.tril(np.ones_like(lengths, dtype=bool))

    def error(self, runs: Sequence[BitsRun]) -> float:
        """Return the summed error of all inputs in these runs."""
        edges = np.cumsum([0, *(run.inputs for run in runs)])
        spans = zip(pairwise(edges), runs, strict=True)
        return float(sum(self._errors[start:stop, RUN_BITS.index(run.bits)].sum() for (start, stop), run in spans))

    def held(self, runs: Sequence[BitsRun]) -> int:
        """Return the bits that the matrix holds in these runs, without the order."""
        return self._outputs * sum(run_bits(run, self._group) for run in runs)

    def single(self, price: float) -> tuple[BitsRun, ...]:
        """Return the one run with the least error + price * bits held."""
        whole = [(BitsRun(len(self._errors), bits),) for bits in RUN_BITS]
        return min(whole, key=lambda runs: self.error(runs) + price * self.held(runs))

    def at_price(self, price: float) -> tuple[BitsRun, ...]:
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
            # RUN_BITS falls, and so do the bits of the runs: those before have as many smaller indices.
            for width in range(count - 1, len(RUN_BITS)):
                wider = np.stack([best[count - 1, wider_width] for wider_width in range(count - 2, width)])
                total = wider.min(0)[:, None] + costs[width]
                start = total.argmin(0)
                best[count, width] = total.min(0)
                # By the end of the last run: where it begins, and the width of the run before it.
                before[count, width] = start, wider.argmin(0) + count - 2
        count, width = min(best, key=lambda key: best[key][-1])
        runs, stop = [], len(self._ends) - 1
        while count > 1:
            start, wider_width = before[count, width]
            begin = int(start[stop])
            runs.append(BitsRun(int(self._ends[stop] - self._ends[begin]), RUN_BITS[width]))
            count, width, stop = count - 1, int(wider_width[begin]), begin
        runs.append(BitsRun(int(self._ends[stop]), RUN_BITS[width]))
        return tuple(reversed(runs))

    def within(self, budget: float) -> tuple[BitsRun, ...] | None:
        """Return the runs with the least error that hold at most `budget` bits, exactly; None if none do."""
        best: tuple[float, tuple[BitsRun, ...] | None] = (np.inf, None)
        for count in range(1, MOST_RUNS + 1):
            for widths in combinations(range(len(RUN_BITS)), count):
                error, cuts = self._best_cuts(widths, budget / self._outputs)
                if error < best[0]:
                    edges = self._ends[[0, *cuts, len(self._ends) - 1]]
                    spans = zip(pairwise(edges), widths, strict=True)
                    best = error, tuple(BitsRun(int(stop - start), RUN_BITS[width]) for (start, stop), width in spans)
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


_HALVINGS = 60
"""Steps of the search for the price of a bit."""


@dataclass(frozen=True, eq=False)
class SitePlan:
    """The runs of each linear layer that reads a site; without an order, one run each."""

    order: Tensor | None
    """int32 [n]: the input of each stored row, the same for all of them."""
    runs: dict[nn.Linear, tuple[BitsRun, ...]]


class EnergySite:
    """One site's inputs in the order of their energy E[x_i^2] sum_j s_j W[j, i]^2, and the errors of rounding them.

    s_j is the sensitivity of output j; the sum runs over all matrices that read the site, which share the order. An
    error counts with E[x_i^2], or with error compensation (`compensated`) with the variance of x_i given the inputs of
    less energy.
    """

    def __init__(
        self,
        site: QuantizationSite,
        moments: Tensor,
        sensitivities: dict[nn.Linear, Tensor],
        group: int,
        *,
        compensated: bool,
    ) -> None:
        self.site = site
        energy = moments.diagonal() * sum(
            (sensitivities[linear][:, None] * linear.weight.float().square()).sum(0) for linear in site.linears
        )
        self.order = energy.argsort(descending=True, stable=True)
        importance = moments.diagonal()[self.order]
        if compensated:
            importance = reverse_cholesky(moments[self.order][:, self.order]).diagonal().square().float()
        self._choices: dict[nn.Linear, RunChoice] = {}
        for linear in site.linears:
            weight_t = linear.weight.detach().t()[self.order].float()
            errors = [_errors(weight_t, importance, sensitivities[linear], bits, group) for bits in RUN_BITS]
            table = torch.stack(errors, 1).cpu().double().numpy()
            self._choices[linear] = RunChoice(table, linear.out_features, group)

    @property
    def weights(self) -> int:
        return self.site.inputs * self.site.outputs

    def at_price(self, price: float) -> tuple[SitePlan, float]:
        """Return the runs with the least error + price * bits held, and the bits; the order is held by ordered runs."""
        single = {linear: choice.single(price) for linear, choice in self._choices.items()}
        several = {linear: choice.at_price(price) for linear, choice in self._choices.items()}
        # All matrices of the site share the order, which is held once.
        plain, ordered = self._held(single), self._held(several) + ORDER_BITS * self.site.inputs
        if self._error(several) + price * ordered < self._error(single) + price * plain:
            return SitePlan(self.order.int(), several), ordered
        return SitePlan(None, single), plain

    def within(self, budgets: dict[nn.Linear, float]) -> SitePlan:
        """Return the runs with the least error that hold at most each matrix's budget of bits, exactly.

        The order is charged to the matrices by their outputs.
        """
        single: dict[nn.Linear, tuple[BitsRun, ...]] = {}
        several: dict[nn.Linear, tuple[BitsRun, ...]] = {}
        for linear, choice in self._choices.items():
            fitting = [(BitsRun(self.site.inputs, bits),) for bits in RUN_BITS]
            fitting = [runs for runs in fitting if choice.held(runs) <= budgets[linear]]
            single[linear] = min(fitting, key=choice.error)
            order = ORDER_BITS * self.site.inputs * linear.out_features / self.site.outputs
            several[linear] = choice.within(budgets[linear] - order) or ()
        if all(several.values()) and self._error(several) < self._error(single):
            return SitePlan(self.order.int(), several)
        return SitePlan(None, single)

    def _error(self, runs: dict[nn.Linear, tuple[BitsRun, ...]]) -> float:
        return sum(choice.error(runs[linear]) for linear, choice in self._choices.items())

    def _held(self, runs: dict[nn.Linear, tuple[BitsRun, ...]]) -> float:
        return sum(choice.held(runs[linear]) for linear, choice in self._choices.items())


def _errors(weight_t: Tensor, importance: Tensor, sensitivity: Tensor, bits: int, group: int) -> Tensor:
    """Return the error of each input, [n], of W^T [n, m] rounded to so many bits."""
    if bits == 16:
        return torch.zeros(len(weight_t), device=weight_t.device)
    rounded = round_to_nearest(weight_t, bits, group, importance).dequantize()
    return importance * ((rounded - weight_t).square() @ sensitivity)


def share_bits(sites: Sequence[EnergySite], mean: float) -> list[SitePlan]:
    """Return runs of the least total error, whose matrices hold `mean` bits a weight, scales and order included.

    All matrices pay the same price for a bit (reverse water-filling), found by bisection, so the result is optimal for
    what it holds; up to the next price's step it may hold less than the budget. Raises WinaError below the fewest bits.
    """
    budget = mean * sum(site.weights for site in sites)
    low, high = -80.0, 40.0  # base-2 logarithms
    if sum(held for _, held in (site.at_price(2.0**high) for site in sites)) > budget:
        raise WinaError(f"{mean:.3g} bits a weight, scales included, are fewer than any choice holds; allow more bits.")
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        held = sum(held for _, held in (site.at_price(2.0**middle) for site in sites))
        low, high = (middle, high) if held > budget else (low, middle)
    # `high` was within the budget at every step.
    return [site.at_price(2.0**high)[0] for site in sites]


# ---- planes of bits, as many for each input as its energy is worth ---------------------------------------------------

_INPUT_BITS = SCALE_BITS + NUMBER_BITS
"""Bits of an input beside its planes, in each matrix."""


@dataclass(frozen=True, eq=False)
class PlaneSite:
    """Inputs that some linear layers share, and with which all of them have equally many planes."""

    linears: tuple[nn.Linear, ...]
    gains: Tensor
    """Divergence that each plane of an input saves for each bit, float64 [n, MOST_PLANES], nats; falling."""

    @property
    def outputs(self) -> int:
        return sum(linear.out_features for linear in self.linears)


def plane_site(linears: Iterable[nn.Linear], squares: Tensor, sensitivities: dict[nn.Linear, Tensor]) -> PlaneSite:
    """Return the gains of a site's planes from E[x_i^2], [n], and the sensitivities of the layers' outputs.

    Without input i, the divergence grows by E_i = E[x_i^2] sum_j s_j W[j, i]^2 / 2, with only its first p planes by
    e_p E_i, where e_p is the relative squared error of the layers' weights in p planes.
    """
    chosen = tuple(linears)
    gains = torch.zeros(len(squares), MOST_PLANES, dtype=torch.float64)
    for linear in chosen:
        weight_t = linear.weight.detach().t().float()
        energy = squares * (weight_t.square() @ sensitivities[linear]) / 2
        gains += energy.double().cpu()[:, None] * torch.tensor(in_planes(weight_t, 1).gains, dtype=torch.float64)
    return PlaneSite(chosen, gains / (PLANE_BITS * sum(linear.out_features for linear in chosen)))


def share_planes(sites: Sequence[PlaneSite], bits: float) -> list[Tensor]:
    """Return the planes of each site's inputs, int64 [n], that save most and hold at most `bits` a weight in all.

    Scales and numbers of planes are left out. Every input has at least one plane, for which `bits` suffice.
    """
    costs = torch.cat([torch.full((site.gains.numel(),), float(site.outputs * PLANE_BITS)) for site in sites])
    gains = torch.cat([site.gains.flatten() for site in sites])
    first = torch.cat([(torch.arange(site.gains.numel()) % MOST_PLANES) == 0 for site in sites])
    # The gains of an input fall from plane to plane, so a stable order takes its planes one after the other.
    order = torch.where(first, torch.inf, gains).argsort(descending=True, stable=True)
    held = costs[order].double().cumsum(0)
    # Rounding of the budget must not exclude its last whole plane, hence 1e-6 below.
    budget = bits * sum(site.outputs * len(site.gains) for site in sites)
    is_chosen = torch.zeros(len(costs), dtype=torch.bool)
    is_chosen[order] = held <= budget + 1e-6
    by_site = is_chosen.split([site.gains.numel() for site in sites])
    return [chosen.view(-1, MOST_PLANES).sum(1) for chosen in by_site]


def planes_of_inputs(
    loaded: LoadedModel, spec: QuantizationSpec, plan: BitsPlan, tokens: Tensor | None, reporter: Reporter
) -> dict[nn.Linear, int | Tensor]:
    """Return the planes of the inputs of each gated layer with fewer than 16 bits: a number, or int64 [n] by energy.

    By energy, `tokens` [rows, sequence] are those of the spec's text, and bits include scales and numbers of planes.
    """
    cells = {
        linear: cell_bits(plan, layer.index, names[0])
        for layer in loaded.view.layers
        for site in sites_of(layer)
        for linear, names in site.linears.items()
    }
    if all(bits == 16 for bits in cells.values()):
        return {}
    if tokens is None:
        return {linear: int(bits) // PLANE_BITS for linear, bits in cells.items() if bits < 16}
    sensitivities = output_sensitivities(loaded.view, tokens, reporter)
    squares = mean_squares(loaded.view, tokens, reporter)
    sites = [site for layer in loaded.view.layers for site in sites_of(layer)]
    if isinstance(spec.bits, float):
        gains = [plane_site(site.linears, squares[site.first_linear], sensitivities) for site in sites]
        weights = sum(site.inputs * site.outputs for site in sites)
        input_bits = sum(_INPUT_BITS * site.inputs * len(site.linears) for site in sites)
        if spec.bits < (least := PLANE_BITS + input_bits / weights):
            raise WinaError(
                f"{spec.bits:.3g} bits a weight are fewer than one plane of every input with its scale; "
                f"allow {ceil(100 * least) / 100:.2f} or more."
            )
        shared = share_planes(gains, spec.bits - input_bits / weights)
        return {linear: planes for site, planes in zip(sites, shared, strict=True) for linear in site.linears}
    planes_of: dict[nn.Linear, int | Tensor] = {}
    for site in sites:
        for linear in site.linears:
            if cells[linear] < 16:
                site_gains = plane_site([linear], squares[site.first_linear], sensitivities)
                (planes_of[linear],) = share_planes(
                    [site_gains], max(cells[linear] - _INPUT_BITS / linear.out_features, PLANE_BITS)
                )
    return planes_of


def cell_bits(plan: BitsPlan, layer: int, name: str) -> float:
    return plan.bits[layer][plan.layout.projections.index(name)]
