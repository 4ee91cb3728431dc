"""A method is one class and its line in the registry: all that asks about it follows from the two."""

from collections import Counter

import numpy as np
import pytest

from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.compute.allocation import allocate
from wina_core.compute.gating.rules import rules
from wina_core.compute.models.shape import model_shape
from wina_core.compute.reporter import NullReporter
from wina_core.compute.scoring import scales_of
from wina_core.errors import WinaError
from wina_core.model_info.cost.matrices import masks
from wina_core.specs import (
    AllocatedSparsity,
    AllocatorSpec,
    MethodSpec,
    TextSpec,
    methods,
)
from wina_core.specs.methods import Method, get_method
from wina_core.specs.methods.published import affordable_rank, masked_fraction
from wina_core.specs.plans import UniformSparsity, resolve_plan

HALF = UniformSparsity(sparsity=0.5)


class Paired(Method):
    """Weighs q and k by the norms of both, o by its own, the rest by none; half of the budget is a low-rank part."""

    name = "paired"
    default_rho = 0.5

    def norms_of(self, name, block, *, fused, rho=None):  # noqa: ARG002 - the base's
        return {"q": ("q", "k"), "k": ("q", "k"), "o": ("o",)}.get(name, ())

    def mask_sparsity(self, sparsity, rho):
        return masked_fraction(sparsity, self.rho if rho is None else rho)

    def rank(self, name, shape, sparsity, rho):  # noqa: ARG002 - the base's
        return affordable_rank(shape, sparsity, self.rho if rho is None else rho)


class Balanced(Method):
    """Scores by the distance from a centre, in attention alone."""

    name = "balanced"
    projections = ("q", "k", "v", "o")
    centring = "inputs"


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for method in (Paired, Balanced):
        monkeypatch.setitem(methods.METHODS, method.name, method)


@pytest.mark.parametrize("family", ["llama", "phi3", "gpt_neox"])
@pytest.mark.parametrize("sharing", ["separate", "shared"])
def test_the_masks_that_are_charged_are_those_that_gates_make(family, sharing):
    """One rule of a layer's gates is one mask; phi3's and gpt_neox's matrices are fused, and gpt_neox has no gate."""
    method = MethodSpec(name="paired", masks=sharing)
    loaded = tiny_loaded(family)
    plan = resolve_plan(HALF, loaded.view.layout, method)
    made = Counter[tuple[int, bool]]()
    for layer, row in zip(loaded.view.layers, rules(loaded.view, method, plan), strict=True):
        masked = {id(rule): (layer.projections[name].shape[1], rule.scale is not None) for name, rule in row.items()}
        made.update(masked.values())
    charged = masks(model_shape(loaded.view), np.array(plan.masks), method)
    assert Counter((mask.inputs, mask.scaled) for mask in charged.elements()) == made


def test_norms_over_several_matrices_are_those_of_the_matrices_one_below_the_other():
    layer = tiny_loaded().view.layers[0]
    scales = scales_of(get_method(MethodSpec(name="paired")), layer)
    squares = sum(layer.projections[name].weight.double().square().sum(0) for name in ("q", "k"))
    assert scales["q"] is scales["k"]
    assert scales["q"].double().sub(squares.sqrt()).abs().max() < 1e-6
    assert [name for name, scale in scales.items() if scale is None] == ["v", "gate", "up", "down"]


def test_a_centred_method_needs_a_calibration():
    spec = MethodSpec(name="balanced")
    assert spec.needs_calibration
    assert not MethodSpec(name="paired").needs_calibration
    with pytest.raises(WinaError, match="has no low-rank part; leave rho out, or choose rsparse or paired"):
        get_method(MethodSpec(name="balanced", rho=0.7))
    assert not MethodSpec(name="no longer there").needs_calibration, "a stored run of it can be read"


@pytest.mark.parametrize(("name", "shares"), [("paired", True), ("wina", False)])
def test_the_shares_of_a_low_rank_part_are_searched_where_there_is_one(name, shares, tmp_path):
    text = TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)
    plan = AllocatedSparsity(sparsity=0.3, allocator=AllocatorSpec(name="evolution", rounds=1, text=text))
    record = allocate(tiny_loaded(layers=1), MethodSpec(name=name), plan, "key", NullReporter())
    assert (record.plan.rho is not None) == shares
