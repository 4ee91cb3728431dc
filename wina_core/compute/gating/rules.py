"""How each gated matrix picks its inputs, worked out from a method, a plan and, where it needs one, a calibration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from wina_kernels.gate import gate_above, gate_top_k
from wina_kernels.selection import deviation_keys, mass_keys, scores, threshold_mask, top_k_mask

from wina_core.compute.gating.scales import scales_of
from wina_core.compute.models.view import ModelView
from wina_core.errors import WinaError
from wina_core.masks.targets import mask_plan, shares_of
from wina_core.methods import get_method
from wina_core.methods.base import BLOCKS
from wina_core.specs import MethodSpec, Selection
from wina_core.specs.plans import SparsityPlan

if TYPE_CHECKING:
    from wina_core.compute.calibration.result import Calibration

KEYS: dict[Selection, Callable[[Tensor], Tensor]] = {
    "topk": lambda scores: scores,
    "threshold": lambda scores: scores,
    "statistical": deviation_keys,
    "top_p": mass_keys,
}
"""What a selection's calibrated cut is compared with, from the scores of a token."""


@dataclass(frozen=True)
class TopK:
    """Keeps exactly `keep` of each token's inputs: those of highest score, the lower index first among equals; with
    `ties` also all that score like the last of them."""

    keep: int
    ties: bool = False

    def keeps_all(self, inputs: int) -> bool:
        """Whether nothing is dropped of n inputs."""
        return self.keep == inputs

    def mask(self, score: Tensor) -> Tensor | None:
        """True where the input is kept, bool like score [..., n]; None when nothing is dropped."""
        if self.keeps_all(score.shape[-1]):
            return None
        if self.ties:
            return score >= score.topk(self.keep, dim=-1).values[..., -1:]
        return top_k_mask(score, self.keep)


@dataclass(frozen=True)
class Above:
    """Keeps each input whose key exceeds a calibrated cut: one that equals it is dropped."""

    selection: Selection
    cut: float

    def keeps_all(self, inputs: int) -> bool:  # noqa: ARG002 - whatever their number
        """Whether nothing is dropped of n inputs."""
        return self.cut < 0

    def mask(self, score: Tensor) -> Tensor | None:
        """True where the input is kept, bool like score [..., n]; None when nothing is dropped."""
        return None if self.keeps_all(score.shape[-1]) else threshold_mask(KEYS[self.selection](score), self.cut)


@dataclass(frozen=True, eq=False)
class Rule:
    """What becomes of an input: kept where its score |x_i - centre_i| * c_i is selected, else replaced by `fill`."""

    select: TopK | Above
    scale: Tensor | None = None
    """c [n]; None stands for 1."""
    centre: Tensor | None = None
    """[n]; None stands for 0."""
    fill: Tensor | None = None
    """What a dropped input counts as, [n], at the cost of a bias W fill; None stands for 0."""

    @property
    def numbers(self) -> int:
        """How many numbers it takes beside inputs and weights: norms, centres and fills; 0 if it drops nothing."""
        vectors = {id(each): each for each in (self.scale, self.centre, self.fill) if each is not None}.values()
        return sum(_distinct(vector) for vector in vectors if not self.select.keeps_all(len(vector)))

    @property
    def replaces(self) -> bool:
        """Whether dropped inputs count as something else than 0, and there are any."""
        return self.fill is not None and not self.select.keeps_all(len(self.fill))

    def mask(self, x: Tensor) -> Tensor | None:
        """True where the input is kept, bool like x [..., n]; None when nothing is dropped.

        For a method that scores the gate activation, x is that.
        """
        return self.select.mask(scores(x if self.centre is None else x - self.centre, self.scale))

    def gate(self, x: Tensor, dense: Tensor | None, signal: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """x [..., n] with its dropped inputs replaced, and how many of each token's are kept, int32 [...].

        None instead of the numbers when nothing is dropped. Tokens where `dense`, bool [...], is True stay as they are.
        `signal`, like x, is scored instead of x. A NaN is never dropped without a trace.
        """
        select = self.select
        if select.keeps_all(x.shape[-1]):
            return x, None
        if signal is None and self.centre is None and self.fill is None:
            if isinstance(select, TopK) and not select.ties:
                return gate_top_k(x, self.scale, select.keep, dense)
            if isinstance(select, Above) and select.selection == "threshold":
                return gate_above(x, self.scale, select.cut, dense)
        mask = self.mask(x if signal is None else signal)
        assert mask is not None  # something is dropped
        if dense is not None:
            mask |= dense.unsqueeze(-1)
        gated = x * mask.to(x.dtype) if self.fill is None else torch.where(mask, x, self.fill)
        return gated, mask.sum(-1, dtype=torch.int32)


def _distinct(vector: Tensor) -> int:
    """Return how many numbers a vector holds: one where it repeats a single one."""
    return 1 if vector.stride() == (0,) else len(vector)


def rules(
    view: ModelView,
    method: MethodSpec,
    plan: SparsityPlan,
    calibration: Calibration | None = None,
    cuts_at: SparsityPlan | None = None,
) -> list[dict[str, Rule]]:
    """The rule of every gated projection by canonical name, a dict for each decoder layer, for a resolved plan.

    Within a layer, projections with the same input whose rules agree get the very same rule, so that their masks are
    computed once. `cuts_at` are the fractions at which the dense model's calibrated cuts are read so that the gated
    model drops what its masks aim at (`gating.correction`); without it, those aims themselves.
    """
    if method.needs_calibration and calibration is None:
        raise WinaError(f"{method.label} with {method.selection} selection needs a calibration; calibrate it first.")
    gate_rule = get_method(method)
    dropped = mask_plan(plan, method)
    cuts = None
    if calibration is not None and method.selection != "topk":
        cuts = calibration.thresholds(dropped if cuts_at is None else cuts_at)
    columns = {name: index for index, name in enumerate(plan.layout.projections)}
    table: list[dict[str, Rule]] = []
    for layer in view.layers:
        scales = scales_of(gate_rule, layer, shares_of(plan, layer.index))
        row: dict[str, Rule] = {}
        for block in BLOCKS:
            distinct: dict[tuple[int, TopK | Above], Rule] = {}
            for name in block:
                if name not in scales:
                    continue
                cell = layer.index, columns[name]
                target = dropped.sparsity[cell[0]][cell[1]]
                select: TopK | Above
                if cuts is None:
                    select = TopK(int(gate_rule.kept(layer.projections[name].shape[1], target)), gate_rule.keeps_ties)
                else:
                    select = Above(method.selection, cuts[cell[0]][cell[1]])
                same = id(scales[name]), select
                if same not in distinct:
                    like = layer.projections[name].linear.weight
                    centre, fill = (None, None) if calibration is None else calibration.vectors(cell, target, like)
                    distinct[same] = Rule(select, scales[name], centre, fill)
                row[name] = distinct[same]
        table.append(row)
    return table
