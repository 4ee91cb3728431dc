"""Methods on live models against their equations, written naively in float64."""

import pytest
import torch
from torch import Tensor

from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.evaluation import measure_fidelity
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter
from wina_core.compute.scoring import low_rank
from wina_core.errors import WinaError
from wina_core.specs import CalibrationSpec, MethodSpec, TextSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity

HALF = UniformSparsity(sparsity=0.5)


def calibrated(tmp_path, loaded: LoadedModel, method: MethodSpec, tokens: int = 192) -> Calibration:
    spec = CalibrationSpec(text=TextSpec(source=tiny_text(tmp_path), tokens=tokens, sequence=64))
    return calibrate(loaded, method, spec, NullReporter())


def inputs(size: int, seed: int = 0) -> Tensor:
    return torch.randn(2, 9, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def kept(score: Tensor, sparsity: float, *, released: bool = False) -> Tensor:
    """The highest of each row of scores, rounded as the text or the released code says, by sorting in plain Python."""
    rows = []
    for row in score.reshape(-1, score.shape[-1]).tolist():
        n = len(row)
        keep = max(1, int(n * (1 - sparsity) + 1e-9) if released else n - int(sparsity * n + 0.5))
        order = sorted(range(len(row)), key=lambda index: (-row[index], index))
        rows.append([index in set(order[:keep]) for index in range(len(row))])
    return torch.tensor(rows).reshape(score.shape)


def of_projection(loaded: LoadedModel, name: str, x: Tensor) -> tuple[Tensor, Tensor, Tensor | float]:
    """(what the gated linear layer computes for a projection, its weight, its bias)."""
    projection = loaded.view.layers[1].projections[name]
    return (
        projection.linear(x)[..., projection.rows],
        projection.weight,
        projection.bias if projection.bias is not None else 0.0,
    )


def test_cats_needs_a_gated_mlp():
    with pytest.raises(WinaError, match="needs a gated MLP"):
        attach(tiny_loaded("gpt_neox"), MethodSpec(name="cats"), UniformSparsity(sparsity=0.1))


def test_rsparse_takes_the_plan_s_own_rho():
    loaded = tiny_loaded(dtype=torch.float64)
    plan = SparsityPlan.uniform(loaded.view.layout, 0.5)
    rho = tuple(tuple(0.6 if column == 3 else 0.9 for column in range(7)) for _ in range(3))
    plan = SparsityPlan(layout=plan.layout, sparsity=plan.sparsity, rho=rho)
    with attach(loaded, MethodSpec(name="rsparse"), plan) as gates:
        ranks = {
            group.names[0]: len(group.low_rank.right)
            for group in gates._mask_groups
            if group.layer == 0 and group.low_rank
        }
    assert ranks["o"] == int(32 * 32 * 0.5 * 0.4 / 64)
    assert ranks["up"] == int(80 * 32 * 0.5 * 0.1 / 112 + 1e-9)


def test_a_rank_that_a_matrix_does_not_have_is_refused():
    with pytest.raises(WinaError, match="rank 9 does not fit a matrix of 8 x 20, whose rank is 8 at most; raise rho"):
        low_rank(torch.randn(8, 20), 9)


@pytest.mark.parametrize("shape", [(200, 120), (120, 200), (150, 150)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_the_low_rank_part_of_a_small_matrix_is_that_of_a_full_decomposition(shape, dtype, tolerance):
    """A random matrix's neighbouring singular values lie a few percent apart, as trained ones' do beyond the first."""
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)
    u, s, v = torch.linalg.svd(weight.double(), full_matrices=False)
    for rank in (1, 9, min(shape)):
        approximation = low_rank(weight, rank)
        torch.testing.assert_close(
            (approximation.left @ approximation.right).double(),
            (u[:, :rank] * s[:rank]) @ v[:rank],
            rtol=0,
            atol=tolerance,
        )
        assert approximation.left.dtype == approximation.right.dtype == dtype


@pytest.mark.parametrize("decay", [0.0, 0.02, 0.2])
def test_the_low_rank_part_of_a_large_matrix_nears_that_of_a_full_decomposition(decay, monkeypatch):
    monkeypatch.setattr("wina_core.compute.scoring._EXACT", 0)
    generator = torch.Generator().manual_seed(0)
    u, _ = torch.linalg.qr(torch.randn(200, 120, generator=generator, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(120, 120, generator=generator, dtype=torch.float64))
    values = torch.exp(-decay * torch.arange(120, dtype=torch.float64)) * torch.linspace(2, 1, 120, dtype=torch.float64)
    weight = ((u * values) @ v).float()
    approximation = low_rank(weight, 10)
    residual = float(torch.linalg.matrix_norm(weight - approximation.left @ approximation.right))
    assert residual <= float(values[10:].norm()) * 1.005


@pytest.mark.parametrize("exact", [0, 1024])
def test_low_rank_parts_are_the_same_each_time(exact, monkeypatch):
    monkeypatch.setattr("wina_core.compute.scoring._EXACT", exact)
    weight = torch.randn(60, 90, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(5)
    one = low_rank(weight, 4)
    torch.manual_seed(6)
    two = low_rank(weight, 4)
    assert torch.equal(one.left, two.left)


def test_larosa_keeps_its_ties_in_decoding_too():
    """No kernel that keeps exactly k may serve it."""
    loaded = tiny_loaded()
    with attach(loaded, MethodSpec(name="larosa"), HALF, kernels=True):
        linear = loaded.view.layers[1].projections["down"].linear
        y = linear(torch.ones(1, 1, 80))
    torch.testing.assert_close(y, linear(torch.ones(1, 1, 80)))


@pytest.mark.parametrize("family", ["llama", "phi3"])
@pytest.mark.parametrize("selection", ["topk", "threshold"])
@pytest.mark.parametrize("name", ["wina", "rsparse"])
def test_mean_correction_replaces_a_dropped_input_by_its_mean_where_it_is_dropped(tmp_path, family, selection, name):
    loaded = tiny_loaded(family, dtype=torch.float64, layers=2)
    method = MethodSpec(name=name, selection=selection, correction="mean")
    calibration = calibrated(tmp_path, loaded, method)
    target = 0.5 if name == "wina" else 1 - 0.5 * 0.95
    with attach(loaded, method, HALF, calibration):
        for column, projection in enumerate(loaded.view.layout.projections):
            below, above = (calibration.means[1, column][index].double() for index in (10, 11))
            nu = below + (target / 0.05 - 10) * (above - below)
            x = inputs(len(nu)) + 0.3
            y, weight, bias = of_projection(loaded, projection, x)
            score = x.abs() if name == "rsparse" else x.abs() * weight.norm(dim=0).float()
            mask = kept(score, target) if selection == "topk" else score > calibration.threshold(1, column, target)
            expected = ((x - nu) * mask) @ weight.T + weight @ nu + bias
            if name == "rsparse":
                m, n = weight.shape
                u, s, v = torch.linalg.svd(weight, full_matrices=False)
                rank = int(m * n * 0.5 * 0.05 / (m + n) + 1e-9)
                expected += ((x - nu) * ~mask) @ ((u[:, :rank] * s[:rank]) @ v[:rank]).T
            torch.testing.assert_close(y, expected, rtol=1e-6, atol=1e-6)


def test_means_are_those_of_the_tokens_that_drop_an_input(tmp_path):
    loaded = tiny_loaded(layers=1)
    method = MethodSpec(name="teal", correction="mean")
    calibration = calibrated(tmp_path, loaded, method, tokens=192)
    seen: list[Tensor] = []
    linear = loaded.view.layers[0].projections["down"].linear
    hook = linear.register_forward_pre_hook(lambda _, args: seen.append(args[0].flatten(0, -2)))
    calibrated(tmp_path, loaded, method, tokens=192)
    hook.remove()
    x = torch.cat(seen)  # fewer tokens than would be sampled: all of them
    dropped = ~kept(x.abs(), 0.5)
    expected = [float(x[dropped[:, i], i].mean()) if dropped[:, i].any() else 0.0 for i in range(80)]
    torch.testing.assert_close(calibration.means[0, 6][10], torch.tensor(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "selection"), [("teal", "statistical"), ("scap", "topk"), ("scap", "threshold"), ("cats", "threshold")]
)
def test_activations_that_are_not_finite_show_and_are_explained(tmp_path, name, selection):
    loaded = tiny_loaded(layers=2)
    method = MethodSpec(name=name, selection=selection)
    calibration = calibrated(tmp_path, loaded, method) if method.needs_calibration else None
    loaded.view.layers[0].projections["q"].weight[3, 5] = torch.nan
    text = TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)
    with (
        attach(loaded, method, UniformSparsity(sparsity=0.25), calibration) as gates,
        pytest.raises(WinaError, match="logits are not numbers"),
    ):
        measure_fidelity(loaded, gates, text, 2, NullReporter())
    with pytest.raises(WinaError, match="not finite"):
        calibrated(tmp_path, loaded, method)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("selection", ["topk", "threshold", "statistical", "top_p"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_gate_hides_what_is_not_finite(tmp_path, bad, selection, dtype):
    loaded = tiny_loaded(layers=1, dtype=dtype)
    method = MethodSpec(name="wina", selection=selection)
    calibration = calibrated(tmp_path, loaded, method) if method.needs_calibration else None
    x = inputs(32).to(dtype)
    x[1, 4, 7] = bad
    with attach(loaded, method, UniformSparsity(sparsity=0.9), calibration):
        y = loaded.view.layers[0].projections["up"].linear(x)
    assert not y[1, 4].isfinite().any()
    assert y[0].isfinite().all()
