"""Thresholds that land where they should, error curves, and files that survive a round trip."""

import math
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from wina_kernels.selection import kept_inputs, scores, top_k_mask

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.compute.calibration import ERROR_SPARSITIES, Calibration, calibrate
from wina_core.compute.calibration.calibrate import density_peak, loss_curves, modes, sampled_positions
from wina_core.compute.calibration.inputs import ScoreHistogram
from wina_core.compute.calibration.result import THRESHOLD_SPARSITIES
from wina_core.compute.gating import attach
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.errors import Cancelled, WinaError
from wina_core.specs import CalibrationSpec, MethodSpec, TextSpec, Variant
from wina_core.specs.methods import get_method
from wina_core.specs.plans import SparsityPlan

WINA = MethodSpec(name="wina", selection="threshold")
TEAL = MethodSpec(name="teal", selection="threshold")


def threshold(scores: torch.Tensor, fraction: float) -> float:
    histogram = ScoreHistogram(torch.device("cpu"))
    for chunk in scores.chunk(3):
        histogram.add(chunk)
    return float(histogram.quantiles(torch.tensor([fraction]))[0])


def dropped(scores: torch.Tensor, at: float) -> float:
    return float((scores.double() <= at).double().mean())


def draw(kind: str, count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(count, generator=generator)
    uniform = torch.rand(count, generator=generator)
    return {
        "normal": normal.abs(),
        "lognormal": (4 * normal).exp(),
        "cauchy": torch.tan(1.57 * uniform),
        "tiny": normal.abs() * 1e-30,
        "huge": normal.abs() * 1e30,
        "far apart": torch.where(uniform < 0.3, normal.abs() * 1e-6, normal.abs() * 1e3),
        "mostly zero": torch.where(uniform < 0.6, 0.0, normal.abs()),
        "bfloat16": normal.abs().bfloat16(),
        "float16": normal.abs().half(),
        "float64": normal.abs().double(),
    }[kind]


@settings(max_examples=60)
@given(
    kind=st.sampled_from(
        ["normal", "lognormal", "cauchy", "tiny", "huge", "far apart", "mostly zero", "bfloat16", "float16", "float64"]
    ),
    target=st.just(0.0) | st.floats(0.001, 0.95),
    seed=st.integers(0, 1000),
)
@example(kind="bfloat16", target=0.683, seed=0)
def test_a_threshold_drops_the_target_fraction(kind, target, seed):
    scores = draw(kind, 20_000, seed)
    achieved = dropped(scores, threshold(scores, target))
    if kind == "mostly zero" and 0 < target < 0.61:
        assert 0.58 < achieved < 0.62  # all zeros go, whatever the target, for they change no output
    else:
        assert achieved == pytest.approx(target, abs=0.005)


@pytest.mark.parametrize("value", [1e-38, 0.3, 1.0, 7.5, 3e38])
def test_a_constant_is_dropped_wholly_or_not_at_all_within_one_bin_of_it(value):
    scores = torch.full((1000,), value)
    for target in (0.1, 0.5, 0.9):
        at = threshold(scores, target)
        assert dropped(scores, at) in (0.0, 1.0)
        assert at == pytest.approx(value, rel=1 / 64)


def test_target_zero_keeps_even_zeros():
    assert threshold(torch.zeros(10), 0.0) == threshold(torch.ones(10), 0.0) == -1.0


def write_text(path, seed: int, tokens: int) -> TextSpec:
    """Random letters of uneven frequency: two seeds are two texts from the same source."""
    letters = torch.arange(97, 123)
    odds = torch.linspace(1, 4, 26)
    drawn = torch.multinomial(odds, tokens, replacement=True, generator=torch.Generator().manual_seed(seed))
    path.write_text("".join(map(chr, letters[drawn].tolist())), encoding="utf-8")
    return TextSpec(source=str(path), tokens=tokens, sequence=64)


@pytest.mark.parametrize(
    ("method", "dtype", "tokens"),
    [
        (WINA, torch.float32, 32_768),
        (TEAL, torch.bfloat16, 12_288),
        (MethodSpec(name="teal", selection="top_p", masks="shared"), torch.float32, 8_192),
        (MethodSpec(name="scap", selection="threshold"), torch.float32, 8_192),
    ],
)
def test_every_matrix_lands_on_its_target_on_fresh_text(tmp_path, method, dtype, tokens):
    loaded = tiny_loaded(layers=1, dtype=dtype)
    spec = CalibrationSpec(text=write_text(tmp_path / "calibration.txt", 1, tokens))
    calibration = calibrate(loaded, method, spec, NullReporter())
    fresh = read_tokens(write_text(tmp_path / "fresh.txt", 2, tokens), loaded.tokenizer)
    inputs: dict[str, torch.Tensor] = {}
    projections = loaded.view.layers[0].projections
    hooks = [
        projection.linear.register_forward_pre_hook(lambda _, args, name=name: inputs.update({name: args[0]}))
        for name, projection in projections.items()
    ]
    with torch.no_grad():
        loaded.model(fresh)
    for hook in hooks:
        hook.remove()
    gated = [name for name in projections if get_method(method).gates(name)]
    for target in (0.0, 0.05, 0.333, 0.5, 0.65, 0.95):
        columns = {(0, loaded.view.layout.projections.index(name)): target for name in gated}
        plan = SparsityPlan.uniform(loaded.view.layout, 0.0).with_cells(columns)
        with attach(loaded, method, plan, calibration) as gates:
            for name, projection in projections.items():
                projection.linear(inputs[name])  # the dense model's own inputs
            assert [record.projection for record in gates.measured()] == gated
            for record in gates.measured():
                assert record.value == pytest.approx(target, abs=0.005 if tokens > 10_000 else 0.01), (
                    record.projection,
                    target,
                )


def calibrated(tmp_path, loaded=None, method=WINA, tokens=512) -> Calibration:
    spec = CalibrationSpec(text=write_text(tmp_path / "text.txt", 1, tokens))
    return calibrate(loaded or tiny_loaded(), method, spec, NullReporter())


def masked(x, scale):
    """Yield what top-k masks take away from x at each of ERROR_SPARSITIES."""
    for sparsity in ERROR_SPARSITIES:
        yield x * ~top_k_mask(scores(x, scale), kept_inputs(x.shape[-1], sparsity)), None


def test_the_error_is_the_relative_norm_of_what_the_mask_takes_away():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(6, 10, generator=generator, dtype=torch.float64)
    x = torch.randn(20, 10, generator=generator, dtype=torch.float64)
    norms = weight.norm(dim=0)
    errors, energies = loss_curves(weight, x, masked(x, norms))
    for index, sparsity in enumerate(ERROR_SPARSITIES):
        keep = max(1, 10 - math.floor(sparsity * 10 + 0.5))
        wrong, lost = [], []
        for token in x:
            order = sorted(range(10), key=lambda i: -float(token[i].abs() * norms[i]))
            rest = torch.zeros(10, dtype=torch.float64)
            rest[order[keep:]] = token[order[keep:]]
            wrong.append(weight @ rest)
            lost.append(rest * norms)
        expected = torch.stack(wrong).norm() / (x @ weight.T).norm()
        assert float(errors[index]) == pytest.approx(float(expected), rel=1e-5), sparsity
        share = 1 - (torch.stack(lost).norm() / (x * norms).norm()) ** 2
        assert float(energies[index]) == pytest.approx(float(share), rel=1e-5), sparsity


def test_an_input_of_zeros_has_no_error():
    errors, energies = loss_curves(torch.randn(3, 4), torch.zeros(5, 4), masked(torch.zeros(5, 4), None))
    assert errors.eq(0).all()
    assert energies.eq(1).all()


def test_the_record_has_thresholds_and_errors_of_every_matrix(tmp_path):
    record = calibrated(tmp_path).record("key", 1.5)
    assert (record.key, record.tokens, record.seconds) == ("key", 512, 1.5)
    assert len(record.layers) == 3 * 7 * (len(THRESHOLD_SPARSITIES) + 2 * 20)
    thresholds = [r for r in record.layers if (r.layer, r.projection, r.metric) == (1, "up", "threshold")]
    assert tuple(r.x for r in thresholds) == THRESHOLD_SPARSITIES
    assert set(ERROR_SPARSITIES) < set(THRESHOLD_SPARSITIES)
    values = [r.value for r in thresholds]
    assert values[0] == -1.0
    assert values == sorted(values)


@pytest.mark.parametrize("after", [0, math.inf])
def test_calibrating_and_cancelling_it_leave_no_trace(tmp_path, after):
    loaded = tiny_loaded()
    modules = {name: set(module.__dict__) for name, module in loaded.model.named_modules()}
    spec = CalibrationSpec(text=write_text(tmp_path / "text.txt", 1, 512))
    with pytest.raises(Cancelled) if after == 0 else nullcontext():
        calibrate(loaded, WINA, spec, RecordingReporter(after))
    assert {name: set(module.__dict__) for name, module in loaded.model.named_modules()} == modules
    assert not any(module._forward_pre_hooks for module in loaded.model.modules())


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("quantiles", lambda curve: curve[..., :-1].contiguous(), "cannot be read"),
        ("quantiles", lambda curve: curve.index_fill(-1, torch.tensor([7]), torch.nan), "cannot be read"),
        ("errors", lambda curve: curve.index_fill(-1, torch.tensor([7]), torch.inf), "cannot be read"),
        ("energies", lambda curve: curve.double(), "cannot be read"),
        ("format", lambda _: "wina calibration 99", "is of another version"),
        ("file", lambda content: content[:-100], "cannot be read"),
    ],
    ids=["shape", "NaN", "infinity", "dtype", "version", "damaged"],
)
def test_files_that_hold_no_calibration_are_refused(tmp_path, name, change, reason):
    path = tmp_path / "calibration.safetensors"
    calibrated(tmp_path, tiny_loaded(layers=1), tokens=128).save(path)
    tensors = load_file(path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    if name == "file":
        path.write_bytes(change(path.read_bytes()))
    else:
        held = metadata if name == "format" else tensors
        held[name] = change(held[name])
        save_file(tensors, path, metadata)
    with pytest.raises(WinaError, match=rf"{reason}; delete it and calibrate again\.$"):
        Calibration.load(path)


def test_dense_needs_no_calibration(tmp_path):
    with pytest.raises(WinaError, match='method "dense" gates nothing, so it needs no calibration'):
        calibrated(tmp_path, method=MethodSpec(name="dense"))


def test_error_curves_are_measured_on_tokens_spread_over_the_text(tmp_path: Path) -> None:
    loaded = tiny_loaded()
    spec = TextSpec(source=tiny_text(tmp_path), tokens=1024, sequence=64)
    inputs: list[torch.Tensor] = []
    projection = loaded.view.layers[1].projections["q"]
    hook = projection.linear.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    calibration = calibrate(loaded, TEAL, CalibrationSpec(text=spec), NullReporter())
    hook.remove()
    x = torch.cat([batch.flatten(0, -2) for batch in inputs])
    sample, first = x[sampled_positions(1024, 256)], x[:256]
    expected, _ = loss_curves(projection.weight, sample, masked(sample, None))
    torch.testing.assert_close(calibration.errors[1, 0], expected)
    assert not torch.allclose(expected, loss_curves(projection.weight, first, masked(first, None))[0])


@given(total=st.integers(1, 5000), count=st.integers(1, 300))
def test_sampled_positions_are_one_in_each_equal_stretch(total: int, count: int) -> None:
    count = min(count, total)
    positions = sampled_positions(total, count)
    assert (positions >= torch.arange(count) * total // count).all()
    assert (positions <= (torch.arange(count) + 1) * total // count).all()
    assert positions[-1] < total


def test_sampled_positions_do_not_favour_a_place_in_the_row() -> None:
    columns = sampled_positions(96 * 512, 256) % 512
    assert (columns == 0).sum() <= 3
    assert len(columns.unique()) > 150


def test_selections_have_cuts_of_their_own_but_top_k_and_threshold_share_theirs(tmp_path: Path) -> None:
    loaded = tiny_loaded(layers=1)
    quantiles = {
        selection: calibrated(tmp_path, loaded, MethodSpec(name="wina", selection=selection), 256).quantiles
        for selection in ("topk", "threshold", "statistical", "top_p", "mixed")
    }
    assert torch.equal(quantiles["topk"], quantiles["threshold"])
    assert torch.equal(quantiles["topk"], quantiles["mixed"])
    assert not torch.equal(quantiles["topk"], quantiles["statistical"])
    assert quantiles["top_p"].max() <= 1 + 1 / 64


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), shift=st.floats(-5, 5), skew=st.booleans())
def test_the_mode_is_where_values_are_densest(seed: int, shift: float, skew: bool) -> None:
    normal = torch.randn(1024, 6, generator=torch.Generator().manual_seed(seed))
    x = (normal.exp() if skew else normal) + shift
    low, high = (0.1, 0.9) if skew else (-0.35, 0.35)  # the true ones are exp(-1), left of the median at 1, and 0
    assert ((modes(x) - shift > low) & (modes(x) - shift < high)).all()


@pytest.mark.parametrize("value", [0.0, -0.7, 3e4])
def test_the_one_mode_of_a_constant_is_that_constant(value: float) -> None:
    assert density_peak(torch.full((10, 2), value)).tolist() == pytest.approx([value])


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_signed_values_that_are_not_finite_are_named(tmp_path: Path, value: float) -> None:
    loaded, method = tiny_loaded(layers=1), MethodSpec(name="teal", variant="as_released")
    hook = lambda _, args: (args[0].index_fill(-1, torch.tensor([3]), value),)  # noqa: E731
    loaded.view.layers[0].projections["down"].linear.register_forward_pre_hook(hook)
    with pytest.raises(WinaError, match="inputs of down in layer 0 are not finite"):
        calibrated(tmp_path, loaded, method, 128)


def test_a_part_of_a_calibration_is_that_of_its_layers(tmp_path: Path) -> None:
    whole = calibrated(tmp_path, tiny_loaded(), MethodSpec(name="scap", correction="mean"), 128)
    selected = whole.of_layers([2, 0])
    assert selected.layout.layers == 2
    for index, layer in enumerate((2, 0)):
        for column in range(4, 7):
            assert selected.threshold(index, column, 0.5) == whole.threshold(layer, column, 0.5)
            assert torch.equal(selected.centres[index, column], whole.centres[layer, column])
            assert torch.equal(selected.means[index, column], whole.means[layer, column])
    assert len(selected.centres) == len(selected.means) == 2 * 3


@pytest.mark.parametrize(("variant", "cells", "sizes"), [("own", 7, {32, 80}), ("paper", 3, {1})])
def test_files_survive_a_round_trip(tmp_path: Path, variant: Variant, cells: int, sizes: set[int]) -> None:
    method = MethodSpec(name="scap", variant=variant, correction="mean")
    calibration = calibrated(tmp_path, tiny_loaded(layers=1), method, 128)
    path = tmp_path / "calibration.safetensors"
    calibration.save(path)
    again = Calibration.load(path)
    assert (again.layout, again.tokens) == (calibration.layout, calibration.tokens)
    torch.testing.assert_close(again.quantiles, calibration.quantiles, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(again.errors, calibration.errors, rtol=0, atol=0, equal_nan=True)
    assert len(again.centres) == len(again.means) == cells
    assert {len(vector) for vector in again.centres.values()} == sizes
    assert all(torch.equal(again.centres[cell], vector) for cell, vector in calibration.centres.items())
    assert all(torch.equal(again.means[cell], vector) for cell, vector in calibration.means.items())
