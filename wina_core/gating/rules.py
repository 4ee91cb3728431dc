"""How each gated matrix picks its inputs, worked out from a method, a plan and, for thresholds, a calibration."""

from dataclasses import dataclass

from torch import Tensor
from wina_kernels.selection import kept_inputs, scores, threshold_mask, top_k_mask

from wina_core.methods import get_method
from wina_core.models.view import PROJECTIONS, ModelView
from wina_core.plan import SparsityPlan
from wina_core.specs import MethodSpec

Thresholds = tuple[tuple[float, ...], ...]
"""Score thresholds, [layer][projection] like a plan; a negative one keeps everything."""


@dataclass(frozen=True, eq=False)
class TopK:
    """Keeps exactly `keep` of each token's inputs: those of highest score |x_i| * c_i."""

    scale: Tensor | None
    """c [n]; None stands for 1."""
    keep: int

    def mask(self, x: Tensor) -> Tensor | None:
        """True where the input is kept, bool like x [..., n]; None when nothing is dropped."""
        return None if self.keep == x.shape[-1] else top_k_mask(scores(x, self.scale), self.keep)


@dataclass(frozen=True, eq=False)
class Threshold:
    """Keeps each input whose score |x_i| * c_i exceeds `threshold`."""

    scale: Tensor | None
    """c [n]; None stands for 1."""
    threshold: float

    def mask(self, x: Tensor) -> Tensor | None:
        """True where the input is kept, bool like x [..., n]; None when nothing is dropped."""
        return None if self.threshold < 0 else threshold_mask(scores(x, self.scale), self.threshold)


Rule = TopK | Threshold


def rules(
    view: ModelView, method: MethodSpec, plan: SparsityPlan, thresholds: Thresholds | None
) -> list[dict[str, Rule]]:
    """The rule of every gated projection by canonical name, a dict for each decoder layer.

    Within a layer, projections whose rules agree get the very same rule, so that their masks are computed once.
    """
    by_threshold = method.selection == "threshold"
    if by_threshold and thresholds is None:
        raise ValueError("threshold selection needs thresholds; take them from a calibration of the same method")
    gate_rule = get_method(method)
    table: list[dict[str, Rule]] = []
    for layer in view.layers:
        row: dict[str, Rule] = {}
        distinct: dict[tuple[int, float], Rule] = {}
        for name, scale in gate_rule.scales(layer).items():
            column = PROJECTIONS.index(name)
            rule: Rule
            if thresholds is not None and by_threshold:
                threshold = thresholds[layer.index][column]
                rule = distinct.setdefault((id(scale), threshold), Threshold(scale, threshold))
            else:
                keep = kept_inputs(layer.projections[name].weight.shape[1], plan.sparsity[layer.index][column])
                rule = distinct.setdefault((id(scale), keep), TopK(scale, keep))
            row[name] = rule
        table.append(row)
    return table
