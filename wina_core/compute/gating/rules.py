"""The selection rule of each gated matrix, from a method, a plan and, where needed, a calibration; and the tokens of a
batch that are real, and that the prefill policy leaves dense.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from wina_kernels.dispatch import gate_above, gate_top_k
from wina_kernels.planes import PlaneWeight
from wina_kernels.selection import scores

from wina_core.compute.models.view import ModelView
from wina_core.compute.scoring import InputSelection, ThresholdSelection, TopKSelection, check_experts, scales_of
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.methods.base import BLOCKS
from wina_core.specs.plans import ResolvedPlan, shares_of

if TYPE_CHECKING:
    from wina_core.compute.calibration.result import Calibration


@dataclass(frozen=True, eq=False)
class Rule:
    """An input is kept where its score |x_i - centre_i| * c_i is selected, and else replaced by `replacement`."""

    select: InputSelection
    scale: Tensor | None = None
    """c [n]; None for 1."""
    centre: Tensor | None = None
    """[n]; None for 0."""
    replacement: Tensor | None = None
    """Values of dropped inputs, [n], at the cost of a bias W replacement; None for 0."""

    @property
    def numbers(self) -> int:
        """Numbers read beside inputs and weights: norms, centres and replacements; 0 if nothing is dropped."""
        vectors = {
            id(vector): vector for vector in (self.scale, self.centre, self.replacement) if vector is not None
        }.values()
        return sum(_distinct(vector) for vector in vectors if not self.select.keeps_all(len(vector)))

    @property
    def replaces(self) -> bool:
        return self.replacement is not None and not self.select.keeps_all(len(self.replacement))

    def mask(self, x: Tensor) -> Tensor | None:
        """Return True where the input is kept, bool like x [..., n]; None if nothing is dropped.

        For a method that scores the gate activation, x is that activation.
        """
        return self.select.mask(scores(x if self.centre is None else x - self.centre, self.scale))

    def gate(self, x: Tensor, dense: Tensor | None, signal: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Replace the dropped inputs of x [..., n], and count each token's kept ones, int32 [...].

        The count is None if nothing is dropped. Tokens where `dense`, bool [...], is True stay unchanged. `signal`,
        like x, is scored instead of x. A NaN stays visible in the result.
        """
        select = self.select
        if select.keeps_all(x.shape[-1]):
            return x, None
        if signal is None and self.centre is None and self.replacement is None:
            if isinstance(select, TopKSelection) and not select.ties:
                return gate_top_k(x, self.scale, select.keep, dense)
            if isinstance(select, ThresholdSelection) and select.selection == "threshold":
                return gate_above(x, self.scale, select.threshold, dense, select.fewest)
        mask = self.mask(x if signal is None else signal)
        assert mask is not None  # something is dropped
        if dense is not None:
            mask |= dense.unsqueeze(-1)
        # A product instead of `where`, since 0 times NaN stays NaN.
        gated = x * mask.to(x.dtype) if self.replacement is None else torch.where(mask, x, self.replacement)
        return gated, mask.sum(-1, dtype=torch.int32)

    def levels(self, x: Tensor, weight: PlaneWeight, dense: Tensor | None) -> Tensor:
        """Return the planes of `weight` that are read of each input of x [..., n], uint8 [..., n]; 0 drops it.

        Tokens where `dense`, bool [...], is True are read whole.
        """
        score = scores(x if self.centre is None else x - self.centre, self.scale)
        mask = self.select.mask(score)
        if mask is None:
            return weight.held.expand(x.shape)
        levels = weight.levels(score, self.select.boundary(score)) * mask
        return levels if dense is None else torch.where(dense.unsqueeze(-1), weight.held, levels)


def _distinct(vector: Tensor) -> int:
    return 1 if vector.stride() == (0,) else len(vector)  # an expanded scalar is stored once


def rules(
    view: ModelView,
    method: MethodSpec,
    plan: ResolvedPlan,
    calibration: Calibration | None = None,
) -> list[dict[str, Rule]]:
    """Return the rules of each of the view's parts by canonical name of its gated projections.

    Projections of a layer with the same input and equal rules share one object, so that masks are computed once.
    Experts have their layer's targets, and calibrated thresholds of their own. Raises WinaError without a calibration
    that the method needs, and for a method that experts cannot have.
    """
    if method.needs_calibration and calibration is None:
        raise WinaError(f"{method.label} with {method.selection} selection needs a calibration; calibrate it first.")
    check_experts(view, method)
    gate_rule = get_method(method)
    layout = plan.targets.layout
    thresholds = None
    if calibration is not None and method.selection != "topk":
        plan.targets.for_layout(calibration.layout)
        thresholds = calibration.thresholds(plan.fractions)
    columns = {name: index for index, name in enumerate(layout.projections)}
    table: list[dict[str, Rule]] = []
    for layer in view.parts:
        scales = scales_of(gate_rule, layer, shares_of(plan.targets, layer.index))
        row: dict[str, Rule] = {}
        for block in BLOCKS:
            distinct: dict[tuple[int, InputSelection], Rule] = {}
            for name in block:
                if name not in scales:
                    continue
                cell = layer.index, columns[name]
                target = plan.masks[cell[0]][cell[1]]
                keep = int(gate_rule.kept(layer.projections[name].shape[1], target))
                select: InputSelection
                selection = method.selection_of(name)
                if thresholds is None or selection == "topk":
                    select = TopKSelection(keep, gate_rule.keeps_ties)
                elif calibration is None or layer.expert is None:
                    select = ThresholdSelection(selection, thresholds[cell[0]][cell[1]], method.fewest(keep))
                else:
                    threshold = calibration.threshold(*cell, plan.fractions[cell[0]][cell[1]], layer.expert)
                    select = ThresholdSelection(selection, threshold, method.fewest(keep))
                # `scales_of` returns one object for projections that may share a mask.
                same = id(scales[name]), select
                if same not in distinct:
                    like = layer.projections[name].linear.weight
                    centre, replacement = (
                        (None, None) if calibration is None else calibration.vectors(cell, target, like)
                    )
                    distinct[same] = Rule(select, scales[name], centre, replacement)
                row[name] = distinct[same]
        table.append(row)
        # Column norms have read the whole weights, which may be pages of files.
        view.give_back(layer.module)
    return table


def without_trailing(input_ids: Tensor, padding: int) -> Tensor:
    """Return True for real tokens of right-padded ids [batch, tokens]: all but each row's trailing run of `padding`.

    The first token of a row is always real, even if it is the padding id.
    """
    real = (input_ids != padding).flip(-1).cumsum(-1).flip(-1) > 0
    real[:, 0] = True
    return real


def real_tokens(mask: Any, tokens: int, cached: int) -> Tensor | None:
    """Return True for the real ones of the last tokens, bool [batch, tokens], by an attention mask; None for all.

    A mask is [batch, keys], or [batch, 1, tokens, keys], where padding attends nothing and decoded tokens are real;
    some families have one for each kind of layer. `cached` tokens precede.
    """
    masks = mask.values() if isinstance(mask, Mapping) else (mask,)
    attention_mask = next((tensor for tensor in masks if isinstance(tensor, Tensor)), None)
    if attention_mask is not None and attention_mask.dim() == 2:
        return attention_mask[:, -tokens:].bool()
    if attention_mask is None or attention_mask.dim() != 4 or tokens == 1:
        return None
    # Every real token attends itself, at column `cached` + its row; padding attends nothing.
    attends_itself = attention_mask[:, 0].diagonal(min(cached, attention_mask.shape[-1] - tokens), 1, 2)
    return attends_itself if attends_itself.dtype == torch.bool else attends_itself == 0


def dense_prefix(real: Tensor, fraction: float) -> Tensor:
    """Return True for the first real tokens of each row that a fraction leaves dense.

    `real` is bool [batch, tokens], padded on either side, with T real tokens in a row. Rounding follows released code:
    up to a half, the last int((1 - fraction) T) tokens are gated (WINA's 0.01, TEAL's 0.5); above, the first
    int(fraction T) are dense (R-Sparse's 0.9). A single token is gated.
    """
    lengths = real.sum(-1, keepdim=True)
    exact = lengths.to(torch.float64)
    dense = (fraction * exact).long() if fraction > 0.5 else lengths - ((1.0 - fraction) * exact).long()
    return real & (real.cumsum(-1) <= dense) & (lengths > 1)
