"""Gate rules: their scores, and that WINA's masks are the best there are where the paper proves it."""

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_kernels.selection import scores, top_k_mask

from tests.wina_core.tiny import tiny_loaded
from wina_core.errors import WinaError
from wina_core.methods import get_method, method_names, method_specs
from wina_core.models.view import PROJECTIONS
from wina_core.specs import MethodSpec


def scales_of(method: str, family: str = "llama", variant: str = "paper"):
    layer = tiny_loaded(family).view.layers[0]
    return layer, get_method(MethodSpec(name=method, variant=variant)).scales(layer)


def norms(weight: torch.Tensor) -> torch.Tensor:
    return (weight.double() ** 2).sum(0).sqrt()


def test_names_start_with_the_dense_reference():
    assert method_names() == ("dense", "teal", "wina", "cats", "rsparse", "scap")


def test_each_method_is_listed_once_for_each_way_it_scores():
    assert [spec.label for spec in method_specs()] == [
        "dense",
        "teal",
        "wina",
        "wina (as released)",
        "cats",
        "rsparse",
        "rsparse (as released)",
        "scap",
    ]


def test_an_unknown_method_is_refused_with_the_known_names():
    with pytest.raises(WinaError, match='no method "winna"; choose one of dense, teal, wina, cats, rsparse, scap'):
        get_method(MethodSpec(name="winna"))


@pytest.mark.parametrize("name", ["dense", "teal", "cats", "scap"])
def test_a_variant_that_a_method_does_not_have_is_refused(name):
    with pytest.raises(WinaError, match=f'"{name}" has no variant "as_released"; choose "paper"'):
        get_method(MethodSpec(name=name, variant="as_released"))


@pytest.mark.parametrize("name", ["wina", "rsparse"])
def test_released_code_shares_no_masks(name):
    with pytest.raises(WinaError, match=f'"{name}" as released cannot either; choose separate masks, or the variant'):
        get_method(MethodSpec(name=name, variant="as_released", masks="shared"))


def test_dense_gates_nothing():
    assert scales_of("dense")[1] == {}


def test_teal_scores_by_magnitude_alone():
    assert scales_of("teal")[1] == dict.fromkeys(PROJECTIONS)


def test_rsparse_scores_by_magnitude_and_as_released_by_norms():
    assert scales_of("rsparse")[1] == dict.fromkeys(PROJECTIONS)
    layer, scales = scales_of("rsparse", variant="as_released")
    for name, projection in layer.projections.items():
        torch.testing.assert_close(scales[name].double(), norms(projection.weight), rtol=1e-6, atol=0)
    without_low_rank = get_method(MethodSpec(name="rsparse", variant="as_released", rho=1.0))
    assert without_low_rank.scales(layer) == dict.fromkeys(PROJECTIONS)


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_wina_takes_every_matrix_own_column_norms(family):
    layer, scales = scales_of("wina", family)
    assert tuple(scales) == PROJECTIONS
    for name, projection in layer.projections.items():
        torch.testing.assert_close(scales[name].double(), norms(projection.weight), rtol=1e-6, atol=0)


def test_wina_as_released_takes_norms_for_k_and_gate_only():
    layer, scales = scales_of("wina", variant="as_released")
    assert {name for name, scale in scales.items() if scale is not None} == {"k", "gate"}
    torch.testing.assert_close(scales["k"].double(), norms(layer.projections["k"].weight), rtol=1e-6, atol=0)


def test_wina_as_released_takes_the_norms_of_whole_fused_matrices():
    layer, scales = scales_of("wina", "phi3", "as_released")
    assert scales["q"] is scales["k"] is scales["v"]
    assert scales["gate"] is scales["up"]
    assert scales["o"] is scales["down"] is None
    fused = layer.projections["q"].linear.weight
    torch.testing.assert_close(scales["q"].double(), norms(fused), rtol=1e-6, atol=0)


def test_norms_of_16_bit_weights_are_taken_in_32_bits():
    layer = tiny_loaded(dtype=torch.bfloat16).view.layers[0]
    scale = get_method(MethodSpec(name="wina")).scales(layer)["q"]
    assert scale.dtype == torch.float32
    torch.testing.assert_close(scale.double(), norms(layer.projections["q"].weight), rtol=1e-6, atol=0)


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
    scale = get_method(MethodSpec(name="wina")).scales(loaded.view.layers[0])["up"]
    x = torch.randn(50, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(top_k_mask(scores(x, scale), 13), top_k_mask(scores(x, None), 13))
