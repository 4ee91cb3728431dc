"""Gate rules: their scores, and that WINA's masks are the best there are where the paper proves it."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_kernels.selection import scores, top_k_mask

from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.models.view import PROJECTIONS
from wina_core.compute.scoring.scales import scales_of
from wina_core.errors import WinaError
from wina_core.methods import METHODS, get_method
from wina_core.specs import MethodSpec, method_specs


def tiny_scales(method: str, family: str = "llama", variant: str = "paper"):
    layer = tiny_loaded(family).view.layers[0]
    return layer, scales_of(get_method(MethodSpec(name=method, variant=variant)), layer)


def norms(weight: torch.Tensor) -> torch.Tensor:
    return (weight.double() ** 2).sum(0).sqrt()


def test_each_method_is_listed_once_for_each_way_it_scores():
    assert ", ".join(spec.label for spec in method_specs()) == (
        "dense, teal, teal (as released), wina, wina (as released), cats, rsparse, rsparse (as released), scap, "
        "scap (as released), scap (own variant), larosa"
    )
    assert len({method.summary for method in METHODS.values()}) == len(METHODS)


def test_an_unknown_method_is_refused_with_the_known_names():
    with pytest.raises(
        WinaError, match='no method "winna"; choose one of dense, teal, wina, cats, rsparse, scap, larosa'
    ):
        get_method(MethodSpec(name="winna"))


@pytest.mark.parametrize(
    ("name", "variant", "known"),
    [
        *((name, "as_released", '"paper"') for name in ("dense", "cats", "larosa")),
        *((name, "own", '"paper" or "as_released"') for name in ("teal", "wina", "rsparse")),
    ],
)
def test_a_variant_that_a_method_does_not_have_is_refused(name, variant, known):
    with pytest.raises(WinaError, match=f'"{name}" has no variant "{variant}"; choose {known}\\.$'):
        get_method(MethodSpec(name=name, variant=variant))


@pytest.mark.parametrize("name", ["teal", "wina", "rsparse", "scap"])
def test_released_code_shares_no_masks(name):
    with pytest.raises(WinaError, match=f'"{name}" as released cannot either; choose separate masks, or another var'):
        get_method(MethodSpec(name=name, variant="as_released", masks="shared"))


def test_dense_gates_nothing():
    assert tiny_scales("dense")[1] == {}


@pytest.mark.parametrize(
    ("name", "variant"), [("teal", "paper"), ("teal", "as_released"), ("scap", "own"), ("larosa", "paper")]
)
def test_methods_without_norms_score_by_magnitude_alone(name, variant):
    assert tiny_scales(name, variant=variant)[1] == dict.fromkeys(PROJECTIONS)


@pytest.mark.parametrize(("variant", "centring"), [("paper", "matrix"), ("as_released", "none")])
def test_scap_gates_the_mlp_and_its_own_variant_everything(variant, centring):
    assert tiny_scales("scap", variant=variant)[1] == dict.fromkeys(("gate", "up", "down"))
    assert tiny_scales("scap", "gpt_neox", variant=variant)[1] == dict.fromkeys(("up", "down"))
    assert get_method(MethodSpec(name="scap", variant=variant)).centring == centring
    assert get_method(MethodSpec(name="scap", variant="own")).centring == "inputs"


def test_rsparse_scores_by_magnitude_and_as_released_by_norms_where_it_has_a_low_rank_part():
    assert tiny_scales("rsparse")[1] == dict.fromkeys(PROJECTIONS)
    layer, scales = tiny_scales("rsparse", variant="as_released")
    assert scales == dict.fromkeys(PROJECTIONS), "its default share leaves nothing for a low-rank part"
    scales = scales_of(get_method(MethodSpec(name="rsparse", variant="as_released", rho=0.9)), layer)
    for name, projection in layer.projections.items():
        torch.testing.assert_close(scales[name].double(), norms(projection.weight), rtol=1e-6, atol=0)


@pytest.mark.parametrize("default", [None, 0.9])
def test_a_plan_s_shares_decide_matrix_by_matrix_whether_rsparse_as_released_scores_by_norms(default):
    layer = tiny_loaded().view.layers[0]
    shares = dict.fromkeys(PROJECTIONS, 1.0) | {"k": 0.8, "down": 0.99}
    scales = scales_of(get_method(MethodSpec(name="rsparse", variant="as_released", rho=default)), layer, shares)
    assert {name for name, scale in scales.items() if scale is not None} == {"k", "down"}
    for name in ("k", "down"):
        weight = layer.projections[name].weight
        torch.testing.assert_close(scales[name].double(), norms(weight), rtol=1e-6, atol=0)
    paper = get_method(MethodSpec(name="rsparse", rho=default))
    assert scales_of(paper, layer, shares) == dict.fromkeys(PROJECTIONS)


# int(n (1 - s)) in double precision, where n - floor(s n + 1/2) is another number.
@pytest.mark.parametrize(
    ("inputs", "sparsity", "paper", "released"),
    [
        (32, 0.5, 16, 16),
        (32, 0.3, 22, 22),
        (10, 0.65, 3, 3),
        (4096, 0.25, 3072, 3072),
        (4096, 0.4, 2458, 2457),
        (11008, 0.65, 3853, 3852),
        (10, 0.9, 1, 1),
        (10, 0.99, 1, 1),
        (8, 0.0, 8, 8),
        (100, 0.9, 10, 9),
    ],
)
def test_released_code_keeps_the_whole_part_and_the_paper_rounds(inputs, sparsity, paper, released):
    rules = [get_method(MethodSpec(name="wina", variant=variant)) for variant in ("paper", "as_released")]
    assert [rule.kept(inputs, sparsity) for rule in rules] == [paper, released]
    assert released == max(1, int(inputs * (1 - sparsity)))
    tables = [rule.kept(np.array([[inputs, 7]]), np.array([[sparsity, 0.5]])) for rule in rules]
    assert [table.tolist() for table in tables] == [[[paper, 3]], [[released, 3]]]


@pytest.mark.parametrize("method", [
    *(MethodSpec(name=name, variant="as_released") for name in ("teal", "wina", "rsparse", "scap")),
    MethodSpec(name="larosa"),
], ids=lambda method: method.name)  # fmt: skip
def test_all_released_code_and_larosa_keep_the_whole_part(method):
    assert get_method(method).kept(11008, 0.65) == 3852


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_wina_takes_every_matrix_own_column_norms(family):
    layer, scales = tiny_scales("wina", family)
    assert tuple(scales) == PROJECTIONS
    for name, projection in layer.projections.items():
        torch.testing.assert_close(scales[name].double(), norms(projection.weight), rtol=1e-6, atol=0)


def test_wina_as_released_takes_norms_for_k_and_gate_only():
    layer, scales = tiny_scales("wina", variant="as_released")
    assert {name for name, scale in scales.items() if scale is not None} == {"k", "gate"}
    torch.testing.assert_close(scales["k"].double(), norms(layer.projections["k"].weight), rtol=1e-6, atol=0)


def test_wina_as_released_takes_the_norms_of_whole_fused_matrices():
    layer, scales = tiny_scales("wina", "phi3", "as_released")
    assert scales["q"] is scales["k"] is scales["v"]
    assert scales["gate"] is scales["up"]
    assert scales["o"] is scales["down"] is None
    fused = layer.projections["q"].linear.weight
    torch.testing.assert_close(scales["q"].double(), norms(fused), rtol=1e-6, atol=0)


def error(weight, x, mask) -> float:
    return float(torch.linalg.vector_norm(weight @ (x * ~mask)))


def best_error(weight, x, keep) -> float:
    """The smallest error of any mask that keeps `keep` inputs, by trying them all."""
    inputs = x.shape[0]
    errors = []
    for kept in combinations(range(inputs), keep):
        mask = torch.zeros(inputs, dtype=torch.bool)
        mask[list(kept)] = True
        errors.append(error(weight, x, mask))
    return min(errors)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), inputs=st.integers(2, 9), data=st.data())
def test_wina_is_optimal_for_orthogonal_columns(seed, inputs, data):
    """Lemma "optimal approximation error over single linear layer" of the paper."""
    keep = data.draw(st.integers(1, inputs - 1))
    generator = torch.Generator().manual_seed(seed)
    orthogonal, _ = torch.linalg.qr(torch.randn(inputs + 3, inputs, generator=generator, dtype=torch.float64))
    weight = orthogonal * torch.rand(inputs, generator=generator, dtype=torch.float64).mul(3)
    x = torch.randn(inputs, generator=generator, dtype=torch.float64)
    mask = top_k_mask(scores(x, norms(weight)), keep)
    assert error(weight, x, mask) <= best_error(weight, x, keep) * (1 + 1e-9) + 1e-12


def test_magnitude_alone_is_not_optimal():
    weight = torch.diag(torch.tensor([0.1, 1.0, 1.0], dtype=torch.float64))
    x = torch.tensor([2.0, 1.0, 0.9], dtype=torch.float64)
    teal, wina = (top_k_mask(scores(x, scale), 2) for scale in (None, norms(weight)))
    assert error(weight, x, teal) > error(weight, x, wina) == pytest.approx(best_error(weight, x, 2))


def test_wina_is_teal_when_all_columns_have_norm_one():
    loaded = tiny_loaded(dtype=torch.float64)
    projection = loaded.view.layers[0].projections["up"]
    projection.linear.weight.div_(norms(projection.weight))
    scale = scales_of(get_method(MethodSpec(name="wina")), loaded.view.layers[0])["up"]
    x = torch.randn(50, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(top_k_mask(scores(x, scale), 13), top_k_mask(scores(x, None), 13))
