"""Methods on live models against their equations, written naively in float64."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.wina_core.tiny import tiny_loaded, tiny_text, tiny_tokens
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.evaluation import measure_deviation
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter
from wina_core.compute.scoring.low_rank import low_rank
from wina_core.errors import WinaError
from wina_core.specs import CalibrationSpec, MethodSpec, TextSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity

FAMILIES = ["llama", "phi3", "gpt_neox"]
HALF = UniformSparsity(sparsity=0.5)
TIGHT = {"rtol": 1e-9, "atol": 1e-9}


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


@pytest.mark.parametrize("family", ["llama", "phi3"])
@pytest.mark.parametrize("sparsity", [0.1, 0.3])
def test_cats_drops_rows_of_up_and_columns_of_down_by_the_gate(family, sparsity):
    loaded = tiny_loaded(family, dtype=torch.float64)
    layer = loaded.view.layers[1]
    gate, up, down = (layer.projections[name] for name in ("gate", "up", "down"))
    parameters = loaded.view.layout.parameters[1]
    cell = sparsity * sum(parameters) / (parameters[5] + parameters[6])
    x = inputs(32)
    with attach(loaded, MethodSpec(name="cats"), UniformSparsity(sparsity=sparsity)) as gates:
        y = layer.mlp[0](x)
        measured = {record.projection: record.value for record in gates.measured()}
        counted = gates.counted_sparsity
    bias = [0.0 if each.bias is None else each.bias for each in (gate, up, down)]
    z = functional.silu(x @ gate.weight.T + bias[0])
    mask = kept(z.abs(), cell)
    expected = (z * mask * (x @ up.weight.T + bias[1])) @ down.weight.T + bias[2]
    torch.testing.assert_close(y, expected, **TIGHT)
    dropped = float((~mask).double().mean())
    assert measured == {"up": pytest.approx(dropped), "down": pytest.approx(dropped)}
    # Only one of three layers has run, and the others count as read.
    assert counted == pytest.approx(dropped * (parameters[5] + parameters[6]) / (3 * sum(parameters)))


def test_cats_counts_to_its_target_over_the_whole_model():
    loaded = tiny_loaded()
    with attach(loaded, MethodSpec(name="cats"), UniformSparsity(sparsity=0.25)) as gates, torch.no_grad():
        loaded.model(tiny_tokens(), use_cache=False)
        assert gates.counted_sparsity == pytest.approx(0.25, abs=0.01)
        assert {record.projection for record in gates.measured()} == {"up", "down"}


def test_cats_beside_a_dense_prefix_and_switched_off_leaves_no_trace():
    loaded = tiny_loaded()
    ids = tiny_tokens()
    with torch.no_grad():
        dense = loaded.model(ids, use_cache=False).logits
        with attach(loaded, MethodSpec(name="cats"), UniformSparsity(sparsity=0.25), dense_prefix=0.5) as gates:
            gated = loaded.model(ids, use_cache=False).logits
            torch.testing.assert_close(gated[:, :12], dense[:, :12])
            assert not torch.allclose(gated[:, 12:], dense[:, 12:])
            gates.enabled = False
            assert torch.equal(loaded.model(ids, use_cache=False).logits, dense)
        assert torch.equal(loaded.model(ids, use_cache=False).logits, dense)
    assert not any(module._forward_hooks for module in loaded.model.modules())


def test_cats_needs_a_gated_mlp():
    with pytest.raises(WinaError, match="needs a gated MLP"):
        attach(tiny_loaded("gpt_neox"), MethodSpec(name="cats"), UniformSparsity(sparsity=0.1))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("variant", "masks"), [("paper", "separate"), ("paper", "shared"), ("as_released", "separate")]
)
@pytest.mark.parametrize("rho", [0.7, 1.0])
def test_rsparse_masks_and_adds_the_low_rank_part_of_what_it_drops(family, variant, masks, rho):
    loaded = tiny_loaded(family, dtype=torch.float64)
    projections = loaded.view.layers[1].projections
    sparsity, counted, released = 0.4, {}, variant == "as_released"
    method = MethodSpec(name="rsparse", variant=variant, rho=rho, masks=masks)
    with attach(loaded, method, UniformSparsity(sparsity=sparsity)) as gates:
        for name, projection in projections.items():
            weight = projection.weight
            m, n = weight.shape
            x = inputs(n)
            y, _, bias = of_projection(loaded, name, x)
            score = x.abs() * weight.norm(dim=0) if released and rho < 1 else x.abs()
            mask = kept(score, 1 - (1 - sparsity) * rho, released=released)
            u, s, v = torch.linalg.svd(weight, full_matrices=False)
            if released and rho < 1:  # k and v as if they were square
                rows = n if name in ("k", "v") else m
                rank = int((rows * n * (1 - sparsity) - int(n * (1 - sparsity) * rho) * rows) / (rows + n))
            else:
                rank = int(m * n * (1 - sparsity) * (1 - rho) / (m + n) + 1e-9)
            stand_in = (u[:, :rank] * s[:rank]) @ v[:rank]
            expected = (x * mask) @ weight.T + (x * ~mask) @ stand_in.T + bias
            torch.testing.assert_close(y, expected, rtol=1e-6, atol=1e-7, msg=f"{name}, rank {rank}")
            counted[name] = float((~mask).double().mean()) - rank * (m + n) / (m * n)
        assert {record.projection: record.value for record in gates.measured()} == pytest.approx(counted)


def test_rsparse_takes_the_plan_s_own_rho():
    loaded = tiny_loaded(dtype=torch.float64)
    plan = SparsityPlan.uniform(loaded.view.layout, 0.5)
    rho = tuple(tuple(0.6 if column == 3 else 0.9 for column in range(7)) for _ in range(3))
    plan = SparsityPlan(layout=plan.layout, sparsity=plan.sparsity, rho=rho)
    with attach(loaded, MethodSpec(name="rsparse"), plan) as gates:
        ranks = {
            part.names[0]: len(part.low_rank.right) for part in gates._mask_groups if part.layer == 0 and part.low_rank
        }
    assert ranks["o"] == int(32 * 32 * 0.5 * 0.4 / 64)
    assert ranks["up"] == int(80 * 32 * 0.5 * 0.1 / 112 + 1e-9)


def test_rsparse_leaves_a_matrix_without_target_as_it_is():
    loaded = tiny_loaded()
    ids = tiny_tokens()
    with torch.no_grad():
        dense = loaded.model(ids, use_cache=False).logits
        with attach(loaded, MethodSpec(name="rsparse"), UniformSparsity(sparsity=0.0)) as gates:
            assert torch.equal(loaded.model(ids, use_cache=False).logits, dense)
            assert gates.counted_sparsity == 0


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
        found = low_rank(weight, rank)
        torch.testing.assert_close(
            (found.left @ found.right).double(), (u[:, :rank] * s[:rank]) @ v[:rank], rtol=0, atol=tolerance
        )
        assert found.left.dtype == found.right.dtype == dtype


@pytest.mark.parametrize("decay", [0.0, 0.02, 0.2])
def test_the_low_rank_part_of_a_large_matrix_is_as_good_as_a_full_decomposition_s(decay, monkeypatch):
    monkeypatch.setattr("wina_core.compute.scoring.low_rank._EXACT", 0)
    generator = torch.Generator().manual_seed(0)
    u, _ = torch.linalg.qr(torch.randn(200, 120, generator=generator, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(120, 120, generator=generator, dtype=torch.float64))
    values = torch.exp(-decay * torch.arange(120, dtype=torch.float64)) * torch.linspace(2, 1, 120, dtype=torch.float64)
    weight = ((u * values) @ v).float()
    found = low_rank(weight, 10)
    residual = float(torch.linalg.matrix_norm(weight - found.left @ found.right))
    assert residual <= float(values[10:].norm()) * 1.005


@pytest.mark.parametrize("exact", [0, 1024])
def test_low_rank_parts_are_the_same_each_time(exact, monkeypatch):
    monkeypatch.setattr("wina_core.compute.scoring.low_rank._EXACT", exact)
    weight = torch.randn(60, 90, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(5)
    one = low_rank(weight, 4)
    torch.manual_seed(6)
    two = low_rank(weight, 4)
    assert torch.equal(one.left, two.left)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("selection", ["topk", "threshold"])
@pytest.mark.parametrize("variant", ["paper", "own"])
def test_scap_replaces_what_is_near_its_mode_by_it(tmp_path, family, selection, variant):
    """A mode for each matrix of the MLP, which all its inputs share; of our own, one for each input of all matrices."""
    loaded = tiny_loaded(family, dtype=torch.float64, layers=2)
    method = MethodSpec(name="scap", variant=variant, selection=selection)
    calibration = calibrated(tmp_path, loaded, method)
    layout = loaded.view.layout
    gated = [name for name in layout.projections if variant == "own" or name in ("gate", "up", "down")]
    targets = SparsityPlan.uniform(layout, 0.0)
    targets = targets.with_cells(
        {(layer, layout.projections.index(name)): 0.5 for layer in range(2) for name in gated}, origin="edited"
    )
    with attach(loaded, method, targets, calibration) as gates:
        for column, name in enumerate(layout.projections):
            x = inputs(loaded.view.layers[1].projections[name].shape[1]) + 0.7
            y, weight, bias = of_projection(loaded, name, x)
            if name not in gated:
                torch.testing.assert_close(y, x @ weight.T + bias, **TIGHT)
                continue
            mode = calibration.centres[1, column].double()
            assert mode.shape == ((1,) if variant == "paper" else (x.shape[-1],))
            score = (x - mode).abs()
            mask = kept(score, 0.5) if selection == "topk" else score > calibration.threshold(1, column, 0.5)
            constant = (weight * mode).sum(1)
            torch.testing.assert_close(y, ((x - mode) * mask) @ weight.T + constant + bias, rtol=1e-9, atol=1e-9)
        added = 0
        for layer in loaded.view.layers:
            inputs_of = {name: layer.projections[name].shape[1] for name in ("q", "o", "up", "down") if name in gated}
            added += len(inputs_of) if variant == "paper" else sum(inputs_of.values())
            added += sum(layer.projections[name].shape[0] for name in gated if layer.projections[name].bias is None)
        weights = sum(map(sum, layout.parameters))
        assert gates.full_sparsity == pytest.approx(gates.counted_sparsity - added / weights)


def test_scap_as_released_is_teal_in_the_mlp():
    loaded = tiny_loaded(dtype=torch.float64)
    method = MethodSpec(name="scap", variant="as_released")
    assert not method.needs_calibration
    with attach(loaded, method, UniformSparsity(sparsity=0.3)) as gates:
        target = 0.3 * 10752 / 7680  # of what the MLP holds
        for name in ("gate", "up", "down", "q"):
            x = inputs(loaded.view.layers[1].projections[name].shape[1])
            y, weight, bias = of_projection(loaded, name, x)
            mask = kept(x.abs(), 0.0 if name == "q" else target, released=True)
            torch.testing.assert_close(y, (x * mask) @ weight.T + bias, **TIGHT)
        assert {record.projection for record in gates.measured()} == {"gate", "up", "down"}


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_larosa_keeps_all_that_score_like_the_last_that_is_kept(family):
    loaded = tiny_loaded(family, dtype=torch.float64)
    levels = {"q": 0.4, "k": 0.4, "v": 0.4, "o": 0.6, "gate": 0.4, "up": 0.4, "down": 0.6}
    with attach(loaded, MethodSpec(name="larosa"), HALF) as gates:
        for name, level in levels.items():
            n = loaded.view.layers[1].projections[name].shape[1]
            x = (inputs(n) * 4).round() / 4  # many of them tie
            y, weight, bias = of_projection(loaded, name, x)
            k = int((1 - level) * n)
            last = x.abs().sort(dim=-1, descending=True).values[..., k - 1 : k]
            mask = x.abs() >= last
            assert mask.sum() > k * mask.shape[0] * mask.shape[1]
            torch.testing.assert_close(y, (x * mask) @ weight.T + bias, **TIGHT)
            measured = {record.projection: record.value for record in gates.measured()}
            assert measured[name] == pytest.approx(1 - float(mask.double().mean()))


def test_larosa_keeps_its_ties_in_decoding_too():
    """No kernel that keeps exactly k may serve it."""
    loaded = tiny_loaded()
    with attach(loaded, MethodSpec(name="larosa"), HALF, kernels=True):
        linear = loaded.view.layers[1].projections["down"].linear
        y = linear(torch.ones(1, 1, 80))
    torch.testing.assert_close(y, linear(torch.ones(1, 1, 80)))


@pytest.mark.parametrize("family", ["llama", "gpt_neox"])
def test_teal_as_released_keeps_what_exceeds_the_inverse_cdf_of_signed_values(tmp_path, family):
    """Of values that are not symmetric, that drops another fraction than the target."""
    loaded = tiny_loaded(family, layers=1)
    layout = loaded.view.layout
    seen: dict[str, list[Tensor]] = {}
    hooks = [
        each.linear.register_forward_pre_hook(
            lambda _, args, name=name: seen.setdefault(name, []).append(args[0].flatten(0, -2))
        )
        for name, each in loaded.view.layers[0].projections.items()
    ]
    method = MethodSpec(name="teal", variant="as_released", selection="threshold")
    calibration = calibrated(tmp_path, loaded, method, tokens=1024)
    for hook in hooks:
        hook.remove()
    plain = calibrated(tmp_path, loaded, method.model_copy(update={"variant": "paper"}), tokens=1024)
    differences = []
    for column, name in enumerate(layout.projections):
        values = torch.cat(seen[name]).flatten().double()
        for target in (0.25, 0.5, 0.8):
            cut = calibration.threshold(0, column, target)
            signed = float((values <= cut).double().mean())
            lowest = float((values <= 0).double().mean())
            assert signed == pytest.approx(max((1 + target) / 2, lowest), abs=0.01), (name, target)
            dropped = float((values.abs() <= cut).double().mean())
            differences.append(abs(dropped - target))
            of_magnitude = plain.threshold(0, column, target)
            assert float((values.abs() <= of_magnitude).double().mean()) == pytest.approx(target, abs=0.01)
    assert max(differences) > 0.05
    with attach(loaded, method, HALF, calibration):
        for column, name in enumerate(layout.projections):
            x = inputs(loaded.view.layers[0].projections[name].shape[1]).float()
            projection = loaded.view.layers[0].projections[name]
            bias = 0.0 if projection.bias is None else projection.bias
            gated = x * (x.abs() > calibration.threshold(0, column, 0.5))
            y = projection.linear(x)[..., projection.rows]
            torch.testing.assert_close(y, gated @ projection.weight.T + bias, rtol=1e-4, atol=1e-5)


def test_rsparse_as_released_is_teal_by_default():
    loaded = tiny_loaded()
    ids = tiny_tokens()
    outputs = []
    for name in ("rsparse", "teal"):
        with (
            torch.no_grad(),
            attach(loaded, MethodSpec(name=name, variant="as_released"), UniformSparsity(sparsity=0.45)),
        ):
            outputs.append(loaded.model(ids, use_cache=False).logits)
    assert torch.equal(*outputs)


@pytest.mark.parametrize("selection", ["topk", "threshold"])
def test_rsparse_as_released_scores_by_norms_where_a_plan_s_share_leaves_a_rank(tmp_path, selection):
    loaded = tiny_loaded(dtype=torch.float64, layers=2)
    method = MethodSpec(name="rsparse", variant="as_released", selection=selection)
    shares = (1.0, 0.8, 1.0, 0.7, 0.9, 1.0, 0.8)
    plan = SparsityPlan.uniform(loaded.view.layout, 0.5).model_copy(update={"rho": (shares,) * 2})
    text = CalibrationSpec(text=TextSpec(source=tiny_text(tmp_path), tokens=192, sequence=64))
    calibration = calibrate(loaded, method, text, NullReporter(), plan) if selection == "threshold" else None
    with attach(loaded, method, plan, calibration):
        for column, name in enumerate(loaded.view.layout.projections):
            weight, rho = loaded.view.layers[1].projections[name].weight, shares[column]
            m, n = weight.shape
            x = inputs(n)
            y, _, bias = of_projection(loaded, name, x)
            score = x.abs() if rho == 1 else x.abs() * weight.norm(dim=0)
            target = 1 - 0.5 * rho
            mask = kept(score, target, released=True)
            if calibration is not None:
                mask = score > calibration.threshold(1, column, target)
            rows = n if name in ("k", "v") else m
            rank = int((rows * n * 0.5 - int(n * 0.5 * rho) * rows) / (rows + n)) if rho < 1 else 0
            assert (rank > 0) == (rho < 1)
            u, s, v = torch.linalg.svd(weight, full_matrices=False)
            expected = (x * mask) @ weight.T + (x * ~mask) @ ((u[:, :rank] * s[:rank]) @ v[:rank]).T + bias
            torch.testing.assert_close(y, expected, rtol=1e-6, atol=1e-7, msg=f"{name}, rank {rank}")


def test_thresholds_of_rsparse_as_released_are_those_of_a_plan_s_scores(tmp_path):
    loaded = tiny_loaded(layers=1)
    method = MethodSpec(name="rsparse", variant="as_released", selection="threshold")
    plan = SparsityPlan.uniform(loaded.view.layout, 0.5).model_copy(update={"rho": ((1.0, 0.8) + (1.0,) * 5,)})
    text = CalibrationSpec(text=TextSpec(source=tiny_text(tmp_path), tokens=192, sequence=64))
    found, plain, normed = (
        calibrate(loaded, spec, text, NullReporter(), shares).quantiles[0]
        for spec, shares in ((method, plan), (method, None), (MethodSpec(name="wina", selection="threshold"), None))
    )
    for column in range(7):
        assert torch.equal(found[column], (normed if column == 1 else plain)[column])
    assert not torch.equal(plain[1], normed[1])


@pytest.mark.parametrize("family", ["llama", "phi3"])
@pytest.mark.parametrize("selection", ["topk", "threshold"])
@pytest.mark.parametrize("name", ["wina", "rsparse"])
def test_mean_correction_replaces_a_dropped_input_by_its_mean_where_it_is_dropped(tmp_path, family, selection, name):
    loaded = tiny_loaded(family, dtype=torch.float64, layers=2)
    method = MethodSpec(name=name, selection=selection, correction="mean")
    calibration = calibrated(tmp_path, loaded, method)
    target = 0.5 if name == "wina" else 1 - 0.5 * 0.95
    with attach(loaded, method, HALF, calibration):
        for column, each in enumerate(loaded.view.layout.projections):
            below, above = (calibration.means[1, column][index].double() for index in (10, 11))
            nu = below + (target / 0.05 - 10) * (above - below)
            x = inputs(len(nu)) + 0.3
            y, weight, bias = of_projection(loaded, each, x)
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


def test_the_mean_is_the_best_replacement_for_what_is_dropped(tmp_path):
    """On the calibration text itself, replacing by the conditional mean leaves less of the inputs' variance behind."""
    loaded = tiny_loaded(layers=1)
    plain, corrected = (MethodSpec(name="teal", correction=each) for each in ("none", "mean"))
    without, mean = (calibrated(tmp_path, loaded, method).errors for method in (plain, corrected))
    assert (mean[..., 8:].mean() < without[..., 8:].mean()).all()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["teal", "wina", "rsparse"])
def test_shared_masks_are_the_same_for_all_matrices_of_a_block(family, name):
    loaded = tiny_loaded(family, dtype=torch.float64)
    layer = loaded.view.layers[0]
    method = MethodSpec(name=name, masks="shared", rho=1.0 if name == "rsparse" else None)  # no low-rank part beside
    plan = SparsityPlan.uniform(loaded.view.layout, 0.5).with_cells({(0, 0): 0.3, (0, 1): 0.8, (0, 2): 0.6})
    parameters = loaded.view.layout.parameters[0]
    mean = sum(s * p for s, p in zip((0.3, 0.8, 0.6), parameters, strict=False)) / sum(parameters[:3])
    x = inputs(32)
    masks = {}
    with attach(loaded, method, plan) as gates:
        for each in ("q", "k", "v"):
            projection = layer.projections[each]
            y0 = projection.linear(x)[..., projection.rows] - (0.0 if projection.bias is None else projection.bias)
            part = next(p for p in gates._mask_groups if p.layer == 0 and each in p.names)
            masks[each] = part.rule.mask(x)
            torch.testing.assert_close(y0, (x * masks[each]) @ projection.weight.T)
    squares = sum(layer.projections[each].weight.square().sum(0) for each in "qkv")
    score = x.abs() * squares.sqrt() if name == "wina" else x.abs()
    for mask in masks.values():
        assert torch.equal(mask, kept(score, mean))


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
        measure_deviation(loaded, gates, text, 2, NullReporter())
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
