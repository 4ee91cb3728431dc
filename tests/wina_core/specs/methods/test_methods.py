"""Gate rules: their scores, and that WINA's masks are the best there are where the paper proves it."""

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_kernels.selection import scores, top_k_mask

from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.scoring import scales_of
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method


def tiny_scales(method: str, family: str = "llama", variant: str = "paper"):
    layer = tiny_loaded(family).view.layers[0]
    return layer, scales_of(get_method(MethodSpec(name=method, variant=variant)), layer)


def norms(weight: torch.Tensor) -> torch.Tensor:
    return (weight.double() ** 2).sum(0).sqrt()


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"name": "winna"}, 'no method "winna"; choose one of dense, teal, wina, cats, rsparse, scap, larosa'),
        ({"name": "cats", "variant": "as_released"}, r'"cats" has no variant "as_released"; choose "paper"\.$'),
        ({"name": "wina", "variant": "own"}, r'"wina" has no variant "own"; choose "paper" or "as_released"\.$'),
        ({"name": "scap", "variant": "as_released", "masks": "shared"}, '"scap" as released cannot either; choose'),
    ],
)
def test_what_no_method_has_is_refused_with_what_there_is(method, message):
    with pytest.raises(WinaError, match=message):
        get_method(MethodSpec(**method))


@pytest.mark.parametrize(("variant", "centring"), [("paper", "matrix"), ("as_released", "none")])
def test_scap_gates_the_mlp_and_its_own_variant_everything(variant, centring):
    assert tiny_scales("scap", variant=variant)[1] == dict.fromkeys(("gate", "up", "down"))
    assert tiny_scales("scap", "gpt_neox", variant=variant)[1] == dict.fromkeys(("up", "down"))
    assert get_method(MethodSpec(name="scap", variant=variant)).centring == centring
    assert get_method(MethodSpec(name="scap", variant="own")).centring == "inputs"


def error(weight, x, mask) -> float:
    return float(torch.linalg.vector_norm(weight @ (x * ~mask)))


def best_error(weight, x, keep) -> float:
    """Return the smallest error of any mask that keeps `keep` inputs, by trying them all."""
    inputs = x.shape[0]
    errors = []
    for kept_inputs in combinations(range(inputs), keep):
        mask = torch.zeros(inputs, dtype=torch.bool)
        mask[list(kept_inputs)] = True
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
