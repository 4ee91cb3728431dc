"""The project against the oracle: outputs, masks, ranks, thresholds, rotations, dense prefixes and greedy plans.

Nothing is marked as expected to fail: a failure is a difference between the project and a definition.
"""

import math

import pytest
import torch

from tests.released import recomputed
from tests.released.readings import (
    COMPARISONS,
    LIMIT,
    PLANS,
    READINGS,
    Comparison,
    Reading,
    Texts,
    calibrated,
    shared_sample,
)
from tests.released.recomputed import MLP, PROJECTIONS, Gate, RSparse
from tests.released.samples import Sample, difference
from tests.wina_core.tiny import tiny_tokens
from wina_core.compute.gating import attach
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.specs import MethodSpec, Variant
from wina_core.specs.methods import get_method
from wina_core.specs.plans import SparsityPlan, UniformSparsity


@pytest.mark.parametrize(
    ("comparison", "name"),
    [(row, name) for row in COMPARISONS if math.isfinite(row.limit) for name in row.models],
    ids=lambda value: value if isinstance(value, str) else f"{value.method}, {value.label}",
)
def test_the_project_is_the_oracle(comparison: Comparison, name: str, texts: Texts) -> None:
    outcome = comparison.measure(name, texts)
    assert outcome.counts_equal
    assert outcome.difference <= comparison.limit


@pytest.mark.parametrize(
    ("name", "variant", "keeps_ties"),
    [
        ("wina", "paper", False),
        ("teal", "paper", False),
        ("teal", "as_released", False),
        ("larosa", "paper", True),
    ],
)
def test_equal_scores(name: str, variant: str, keeps_ties: bool) -> None:
    """Check that the lower index is kept among equals, and that LaRoSA keeps whatever scores like the k-th."""
    model = shared_sample("llama-gqa")
    matrix, projection = model.weights.layers[1].matrices["o"], model.loaded.view.layers[1].projections["o"]
    score = torch.randint(1, 4, (1, 6, 32), generator=torch.Generator().manual_seed(0)).double()
    x = score / matrix.weight.norm(dim=0) if name == "wina" else score
    score = recomputed.Wina(model.weights, {}).score(1, "o", x) if name == "wina" else score
    assert matrix.bias is not None
    row = tuple(0.5 if each == "o" else 0.0 for each in PROJECTIONS)
    plan = SparsityPlan(layout=model.loaded.view.layout, sparsity=(row, row))
    with attach(model.loaded, MethodSpec.model_validate({"name": name, "variant": variant}), plan), torch.no_grad():
        found = projection.linear(x)
    mask = (recomputed.top_k_with_ties if keeps_ties else recomputed.top_k)(score, 16)
    assert (int(mask.sum()) > 6 * 16) == keeps_ties
    assert difference(found, (x * mask) @ matrix.weight.T + matrix.bias) <= LIMIT


@pytest.mark.parametrize("reading", [each for each in READINGS if each.method == "rsparse"], ids=lambda each: each.key)
def test_ranks_of_rsparse(reading: Reading, model: Sample) -> None:
    method = get_method(reading.method_spec)
    for levels in PLANS:
        gate = reading.oracle(model.weights, {(0, name): levels[name] for name in PROJECTIONS})
        assert isinstance(gate, RSparse)
        if reading.shares is not None:
            gate.rho = {(0, name): reading.shares[name] for name in PROJECTIONS}
        for name in PROJECTIONS:
            shape = model.loaded.view.layers[0].projections[name].shape
            rho = None if reading.shares is None else reading.shares[name]
            assert method.rank(name, shape, levels[name], rho) == min(gate.rank(0, name), *shape), (name, levels[name])


@pytest.mark.parametrize("rho", [0.145, 0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("shape", [(4096, 4096), (1024, 4096), (14336, 4096), (4096, 14336)])
def test_ranks_and_kept_inputs_of_rsparse_at_the_size_of_llama_3_8b(shape: tuple[int, int], rho: float) -> None:
    outputs, inputs = shape
    name = "k" if outputs < 4096 else "down" if inputs > 4096 else "gate" if outputs > 4096 else "q"
    released = get_method(MethodSpec(name="rsparse", variant="as_released", rho=rho))
    paper = get_method(MethodSpec(name="rsparse", rho=rho))
    square = (4096, 4096) if name in ("q", "k") else shape
    for sparsity in (0.25, 0.3, 0.4, 0.5, 0.6, 0.65):
        assert released.rank(name, shape, sparsity, None) == min(
            recomputed.rsparse_released_rank(*square, sparsity, rho), *shape
        )
        assert paper.rank(name, shape, sparsity, None) == recomputed.rsparse_rank(*shape, sparsity, rho)
        kept = released.kept(inputs, released.mask_sparsity(sparsity, None))
        assert int(kept) == int(inputs * (1 - sparsity) * rho), sparsity


@pytest.mark.parametrize(("name", "variant"), [("wina", "as_released"), ("teal", "as_released"), ("larosa", "paper")])
@pytest.mark.parametrize("inputs", [32, 80, 1000, 4096, 5120, 11008, 14336, 18944])
def test_released_counts_are_those_of_python_floats(name: str, variant: Variant, inputs: int) -> None:
    method = get_method(MethodSpec(name=name, variant=variant))
    for thousandths in range(0, 1000, 5):
        sparsity = thousandths / 1000
        expected = recomputed.kept_released(inputs, sparsity)
        assert int(method.kept(inputs, sparsity)) == max(expected, 1), sparsity


def test_scap_takes_one_mode_for_each_mlp_matrix_at_the_peak_of_its_density(model: Sample, texts: Texts) -> None:
    calibration = calibrated(model, MethodSpec(name="scap", variant="paper"), texts.short)
    inputs = recomputed.dense_inputs(model.weights, model.shape, read_tokens(texts.short, model.loaded.tokenizer))
    assert set(calibration.centres) == {(layer, PROJECTIONS.index(name)) for layer in range(2) for name in MLP}
    assert all(len(mode.unique()) == 1 for mode in calibration.centres.values())
    for layer, name in ((0, "gate"), (1, "up"), (1, "down")):
        mode = calibration.centres[layer, PROJECTIONS.index(name)][:1].double()
        _, highest = recomputed.density_peak(inputs[layer, name], points=500)
        assert float(recomputed.density_estimate(inputs[layer, name], mode)) >= 0.999 * highest


def test_a_decoded_token_is_gated_whatever_the_prefix() -> None:
    model, ids = shared_sample("llama-gqa"), tiny_tokens(rows=1, length=9)
    gate = Gate(model.weights, dict.fromkeys(model.weights.cells, 0.5), prefix=lambda tokens: 4 if tokens == 9 else 0)
    expected = recomputed.forward(model.weights, model.shape, ids, gate)
    plan = UniformSparsity(sparsity=0.5)
    with attach(model.loaded, MethodSpec(name="teal"), plan, dense_prefix=0.5), torch.no_grad():
        past = model.loaded.model(ids[:, :8], use_cache=True).past_key_values
        last = model.loaded.model(ids[:, 8:], past_key_values=past).logits
    assert difference(last[:, -1], expected[:, -1]) <= LIMIT
