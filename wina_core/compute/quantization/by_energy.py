"""Order of inputs by energy, and the bits of each run, for a mean over the model or for each matrix of a plan."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wina_core.compute.quantization.error_compensation import reverse_cholesky
from wina_core.compute.quantization.inputs import Site
from wina_core.compute.quantization.rounding import round_to_nearest
from wina_core.compute.quantization.runs import Run, RunChoice
from wina_core.errors import WinaError
from wina_core.model_info.cost.bits import ORDER_BITS, RUN_BITS

_HALVINGS = 60
"""Steps of the search for the price of a bit."""


@dataclass(frozen=True, eq=False)
class SitePlan:
    """The runs of each linear layer that reads a site; without an order, one run each."""

    order: Tensor | None
    """int32 [n]: the input of each stored row, the same for all of them."""
    runs: dict[nn.Linear, tuple[Run, ...]]


class EnergySite:
    """One site's inputs in the order of their energy E[x_i^2] sum_j s_j W[j, i]^2, and the errors of rounding them.

    s_j is the sensitivity of output j; the sum runs over all matrices that read the site, which share the order. An
    error counts with E[x_i^2], or with error compensation (`compensated`) with the variance of x_i given the inputs of
    less energy.
    """

    def __init__(
        self, site: Site, moments: Tensor, sensitivities: dict[nn.Linear, Tensor], group: int, *, compensated: bool
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
        """Return the number of weights."""
        return self.site.inputs * self.site.outputs

    def at_price(self, price: float) -> tuple[SitePlan, float]:
        """Return the runs with the least error + price * bits held, and the bits; the order is held by ordered runs."""
        single = {linear: choice.single(price) for linear, choice in self._choices.items()}
        several = {linear: choice.at_price(price) for linear, choice in self._choices.items()}
        plain, ordered = self._held(single), self._held(several) + ORDER_BITS * self.site.inputs
        if self._error(several) + price * ordered < self._error(single) + price * plain:
            return SitePlan(self.order.int(), several), ordered
        return SitePlan(None, single), plain

    def within(self, budgets: dict[nn.Linear, float]) -> SitePlan:
        """Return the runs with the least error that hold at most each matrix's budget of bits, exactly.

        The order is charged to the matrices by their outputs.
        """
        single: dict[nn.Linear, tuple[Run, ...]] = {}
        several: dict[nn.Linear, tuple[Run, ...]] = {}
        for linear, choice in self._choices.items():
            fitting = [(Run(self.site.inputs, bits),) for bits in RUN_BITS]
            fitting = [runs for runs in fitting if choice.held(runs) <= budgets[linear]]
            single[linear] = min(fitting, key=choice.error)
            order = ORDER_BITS * self.site.inputs * linear.out_features / self.site.outputs
            several[linear] = choice.within(budgets[linear] - order) or ()
        if all(several.values()) and self._error(several) < self._error(single):
            return SitePlan(self.order.int(), several)
        return SitePlan(None, single)

    def _error(self, runs: dict[nn.Linear, tuple[Run, ...]]) -> float:
        return sum(choice.error(runs[linear]) for linear, choice in self._choices.items())

    def _held(self, runs: dict[nn.Linear, tuple[Run, ...]]) -> float:
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
    return [site.at_price(2.0**high)[0] for site in sites]
