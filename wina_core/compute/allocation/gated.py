"""The one place where the searches use models and gates."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from wina_core.compute.allocation.cells import Cells
from wina_core.compute.calibration import Calibration
from wina_core.compute.gating import Gates, attach
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.view import ModelView, is_fused
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.methods.base import BLOCKS
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity
from wina_core.specs.targets import resolve_plan


def cells_of(layout: PlanLayout, method: MethodSpec, fused: Sequence[Sequence[str]] = ()) -> Cells:
    """Return the cells that a method gates; those of one tuple of `fused` move together. Raises WinaError if there are
    none."""
    rule = get_method(method)
    resolve_plan(UniformSparsity(sparsity=0.0), layout, method)  # an allocator may measure nothing, and so not find out
    names = [name for name in layout.projections if rule.gates(name)]
    if not names:
        raise WinaError(f'The method "{method.name}" gates nothing, so there is no budget to spread; choose another.')
    together: Sequence[Sequence[str]] = BLOCKS if method.masks == "shared" else fused
    if rule.by_gate_activation:
        together = (("up", "down"),)
    return Cells.of(layout, names, together)


def check_joint(view: ModelView) -> None:
    """Raise WinaError for a model whose bits and sparsities are not allocated together."""
    if view.has_experts:
        raise WinaError(
            "Bits and sparsities are not allocated together for separate experts; choose one quantization for all and "
            "allocate the sparsity by curves."
        )


@dataclass(frozen=True)
class Subject:
    """A model and the method that gates it, with the method's calibration if it needs one."""

    loaded: LoadedModel
    method: MethodSpec
    calibration: Calibration | None = None

    @property
    def fused(self) -> tuple[tuple[str, ...], ...]:
        """Names of the matrices that are rows of one, if any."""
        return tuple(names for names in BLOCKS if is_fused(self.loaded.view.layers[0], names))

    def gated(self, plan: SparsityPlan, layers: Sequence[int]) -> AbstractContextManager[Gates]:
        """Gate the given layers by the plan within the block."""
        chosen = [self.loaded.view.layers[index] for index in layers]
        view = replace(self.loaded.view, layers=tuple(layer.at(place) for place, layer in enumerate(chosen)))
        table = tuple(plan.sparsity[index] for index in layers)
        rho = None if plan.rho is None else tuple(plan.rho[index] for index in layers)
        part = SparsityPlan(layout=view.layout, sparsity=table, provenance=plan.provenance, rho=rho)
        calibration = None if self.calibration is None else self.calibration.of_layers(layers)
        return attach(replace(self.loaded, view=view), self.method, part, calibration)
