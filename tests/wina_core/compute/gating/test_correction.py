"""Thresholds corrected in the gated model, so that its matrices reach their targets."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.gating import attach, tuning
from wina_core.compute.gating.tuning import check_tuning, correct_fractions, tuned_biases_of, tuned_calibration
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import divergences, scored_log_probabilities
from wina_core.compute.models.mapped import MappedWeights
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter, Reporter
from wina_core.compute.stages import Stages
from wina_core.errors import Cancelled, WinaError
from wina_core.specs import CalibrationSpec, MethodSpec, Selection, TextSpec
from wina_core.specs.plans import ResolvedPlan, SparsityPlan, UniformSparsity, resolve_plan


def varied_text(path: Path, seed: int = 1, tokens: int = 4096) -> TextSpec:
    """Random characters of two bytes each: inputs of the first layer differ, as those of a real vocabulary do."""
    codes = torch.randint(0x80, 0x800, (tokens // 2 + 1,), generator=torch.Generator().manual_seed(seed))
    path.write_text("".join(map(chr, codes.tolist())), encoding="utf-8")
    return TextSpec(source=str(path), tokens=tokens, sequence=64)


def calibrated(loaded: LoadedModel, method: MethodSpec, text: TextSpec) -> tuple[Calibration, Tensor]:
    """The calibration on a text, and the text's tokens."""
    return calibrate(loaded, method, CalibrationSpec(text=text), NullReporter()), read_tokens(text, loaded.tokenizer)


def measured(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: ResolvedPlan,
    calibration: Calibration,
    tokens: Tensor,
) -> tuple[dict[tuple[int, str], float], float]:
    """Return the sparsity of each gated matrix on a text, minus its low-rank part, and that of the whole model."""
    with attach(loaded, method, plan, calibration) as gates, torch.no_grad():
        for row in tokens.split(32):
            loaded.model(row, use_cache=False)
        return {(record.layer, record.projection): record.value for record in gates.measured()}, gates.gated_sparsity


def correct(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: UniformSparsity | SparsityPlan,
    calibration: Calibration,
    tokens: Tensor,
    reporter: NullReporter | RecordingReporter | None = None,
) -> ResolvedPlan:
    resolved = resolve_plan(plan, loaded.view.layout, method)
    return correct_fractions(loaded, method, resolved, calibration, tokens, reporter or NullReporter())


def misses(sparsities: dict[tuple[int, str], float], table: SparsityPlan) -> list[float]:
    """Return how far each matrix is from its target."""
    return [
        abs(sparsities.get((layer, name), 0.0) - target)
        for layer, row in enumerate(table.sparsity)
        for name, target in zip(table.layout.projections, row, strict=True)
    ]


def spec(name: str, selection: Selection = "threshold", **settings: object) -> MethodSpec:
    return MethodSpec.model_validate({"name": name, "selection": selection, **settings})


# The method, its target, and by how much its most distant matrix misses without a correction, at least.
METHODS = [
    (spec("teal"), 0.5, 0.01),
    (spec("teal", variant="as_released"), 0.5, 0.1),
    (spec("wina", correction="mean"), 0.5, 0.005),
    (spec("cats"), 0.4, 0.0015),
    (spec("rsparse", rho=0.8), 0.5, 0.03),
    (spec("scap", variant="own"), 0.4, 0.004),
    (spec("larosa"), 0.5, 0.004),
    (spec("wina", masks="shared"), 0.5, 0.01),
    (spec("wina", "statistical"), 0.5, 0.002),
    (spec("teal", "top_p"), 0.5, 0.0015),
]


@pytest.mark.parametrize(
    ("family", "method", "sparsity", "uncorrected"),
    [*(("llama", *case) for case in METHODS), *((family, spec("wina"), 0.5, 0.0) for family in ("phi3", "gpt_neox"))],
    ids=lambda value: f"{value.label}-{value.selection}" if isinstance(value, MethodSpec) else str(value),
)
def test_corrected_cuts_reach_every_matrix_target_where_uncorrected_ones_miss(
    tmp_path, family, method, sparsity, uncorrected
):
    loaded, plan = tiny_loaded(family, layers=2), UniformSparsity(sparsity=sparsity)
    calibration, tokens = calibrated(loaded, method, varied_text(tmp_path / "text.txt"))
    resolved = resolve_plan(plan, loaded.view.layout, method)
    before, _ = measured(loaded, method, resolved, calibration, tokens)
    assert max(misses(before, resolved.targets)) > uncorrected
    corrected = correct(loaded, method, plan, calibration, tokens)
    after, _ = measured(loaded, method, corrected, calibration, tokens)
    assert max(misses(after, resolved.targets)) <= 1e-3
    other = read_tokens(varied_text(tmp_path / "other.txt", seed=2), loaded.tokenizer)
    _, whole = measured(loaded, method, corrected, calibration, other)
    assert whole == pytest.approx(resolved.targets.budget, abs=4e-3)


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_mixed_selection_corrects_gate_and_up_and_keeps_exactly_k_of_the_others(tmp_path, family):
    loaded, method, plan = tiny_loaded(family, layers=2), spec("wina", "mixed"), UniformSparsity(sparsity=0.5)
    calibration, tokens = calibrated(loaded, method, varied_text(tmp_path / "text.txt"))
    corrected = correct(loaded, method, plan, calibration, tokens)
    with attach(loaded, method, corrected, calibration) as gates, torch.no_grad():
        loaded.model(tokens[:4], use_cache=False)
        numbers = {record.layer: {} for record in gates.measured()}
        for layer, row in enumerate(gates.rules):
            numbers[layer] = {name: type(rule.select).__name__ for name, rule in row.items()}
    assert {spec("cats", "mixed").selection_of(name) for name in ("up", "down")} == {"threshold"}, "one mask for both"
    selections = {"gate": "ThresholdSelection", "up": "ThresholdSelection"}
    expected = {name: selections.get(name, "TopKSelection") for name in loaded.view.layout.projections}
    assert numbers == {0: expected, 1: expected}
    sparsities, _ = measured(loaded, method, corrected, calibration, tokens)
    inputs = {name: projection.shape[1] for name, projection in loaded.view.layers[0].projections.items()}
    for (_, name), value in sparsities.items():
        rounded = round(0.5 * inputs[name]) / inputs[name]
        assert value == pytest.approx(0.5 if name in selections else rounded, abs=1e-3 if name in selections else 1e-9)


@pytest.mark.parametrize("name", ["teal", "rsparse"])
def test_a_plan_is_corrected_matrix_by_matrix_and_its_zeros_stay(tmp_path, name):
    loaded, method = tiny_loaded(layers=2), spec(name)
    cells = {(0, 0): 0.0, (0, 6): 0.8, (1, 3): 0.0, (1, 4): 0.25}
    plan = SparsityPlan.uniform(loaded.view.layout, 0.5).with_cells(cells)
    if name == "rsparse":
        plan = plan.model_copy(update={"rho": ((0.9,) * 7, (0.7,) * 7)})
    calibration, tokens = calibrated(loaded, method, varied_text(tmp_path / "text.txt"))
    corrected = correct(loaded, method, plan, calibration, tokens)
    zeros = [[value == 0 for value in row] for row in plan.sparsity]
    assert [[value == 0 for value in row] for row in corrected.fractions] == zeros
    sparsities, _ = measured(loaded, method, corrected, calibration, tokens)
    assert sparsities[0, "q"] == sparsities[1, "o"] == 0
    assert max(misses(sparsities, plan)) <= 1e-3


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_correction_can_be_cancelled_and_leaves_no_trace(tmp_path, after):
    loaded, method, plan = tiny_loaded(layers=2), spec("cats"), UniformSparsity(sparsity=0.3)
    calibration, tokens = calibrated(loaded, method, varied_text(tmp_path / "text.txt", tokens=8192))
    modules = {name: set(module.__dict__) for name, module in loaded.model.named_modules()}
    with pytest.raises(Cancelled):
        correct(loaded, method, plan, calibration, tokens, RecordingReporter(after))
    assert {name: set(module.__dict__) for name, module in loaded.model.named_modules()} == modules
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in loaded.model.modules())


# ---- biases, tuned on the divergence of the gated model from the dense one -------------------------------------------

PLAN = UniformSparsity(sparsity=0.4)
SHARED = MethodSpec(name="wina", masks="shared", correction="tuned")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer and longer steps than those for models that were trained."""
    monkeypatch.setattr(tuning, "RATE", 0.3)
    monkeypatch.setattr(tuning, "TUNING_STEPS", 6)


@pytest.fixture
def tokens(tmp_path: Path) -> Tensor:
    """Equal rows, since nothing about other rows of a random text can be learned."""
    text = varied_text(tmp_path / "text.txt", tokens=64)
    return read_tokens(text, tiny_loaded(layers=1).tokenizer).repeat(4, 1)


@torch.no_grad()
def divergence(loaded: LoadedModel, method: MethodSpec, calibration: Calibration, tokens: Tensor) -> float:
    """The mean KL divergence of the gated model on a text, in nats per token."""
    dense = scored_log_probabilities(loaded.view, tokens)
    with attach(loaded, method, PLAN, calibration):
        return float(divergences(dense, scored_log_probabilities(loaded.view, tokens)).mean())


def tuned(
    loaded: LoadedModel,
    method: MethodSpec,
    tokens: Tensor,
    calibration: Calibration | None = None,
    reporter: Reporter | None = None,
    stages: Stages | None = None,
    plan: UniformSparsity | SparsityPlan = PLAN,
) -> Calibration:
    resolved = resolve_plan(plan, loaded.view.layout, method)
    return tuned_calibration(loaded, method, resolved, calibration, tokens, reporter or NullReporter(), stages)


@pytest.mark.parametrize(
    ("family", "name"),
    [*product(["llama", "phi3", "gpt_neox"], ["wina", "teal"]), ("mixtral", "wina")],
)
def test_the_gated_model_comes_closer_to_the_dense_one(family, name, tokens):
    loaded, method = tiny_loaded(family, layers=2), MethodSpec(name=name, correction="tuned")
    before = {key: value.clone() for key, value in loaded.model.state_dict().items()}
    calibration = tuned(loaded, method, tokens)
    plain = replace(calibration, tuned={})
    assert divergence(loaded, method, calibration, tokens) < divergence(loaded, method, plain, tokens)
    after = loaded.model.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items()), "no weight changes"


@pytest.mark.parametrize("method", ["cats", "rsparse", "scap", "wina by thresholds"])
def test_other_rules_and_selections_are_tuned_on_their_calibration(method, tmp_path, tokens):
    name, _, threshold = method.partition(" by ")
    spec = MethodSpec(name=name, selection="threshold" if threshold else "topk", correction="tuned")
    loaded, text = tiny_loaded(layers=2), varied_text(tmp_path / "other.txt", tokens=1024)
    untuned = None
    if spec.untuned.needs_calibration:
        untuned = calibrate(loaded, spec, CalibrationSpec(text=text), NullReporter())
    calibration = tuned(loaded, spec, tokens, untuned)
    plain = replace(calibration, tuned={})
    assert divergence(loaded, spec, calibration, tokens) < divergence(loaded, spec, plain, tokens)
    if untuned is not None:
        assert torch.equal(calibration.quantiles.nan_to_num(), untuned.quantiles.nan_to_num())


@pytest.mark.parametrize("family", ["llama", "phi3", "gpt_neox"])
def test_a_bias_is_added_to_the_outputs_of_its_matrix_alone(family):
    loaded = tiny_loaded(family, layers=1)
    layout = loaded.view.layout
    sizes = [projection.shape[0] for projection in loaded.view.layers[0].projections.values()]
    biases = {(0, column): torch.randn(size) for column, size in enumerate(sizes)}
    zeros = {cell: torch.zeros_like(bias) for cell, bias in biases.items()}
    plain = Calibration.empty(layout, 0)
    for column, projection in enumerate(loaded.view.layers[0].projections.values()):
        outputs: list[Tensor] = []
        for tuned_biases in (zeros, zeros | {(0, column): biases[0, column]}):
            with attach(loaded, SHARED, PLAN, replace(plain, tuned=tuned_biases)) as gates, torch.no_grad():
                (forward,) = [gated for gated in gates.forwards if gated.linear is projection.linear]
                x = torch.randn(2, 5, projection.shape[1], generator=torch.Generator().manual_seed(column))
                outputs.append(forward(x))
                gates.enabled = False
                assert torch.equal(forward(x), projection.linear.__class__.forward(projection.linear, x))
        added = torch.zeros(projection.linear.out_features)
        added[projection.rows] = biases[0, column]
        torch.testing.assert_close(outputs[1], outputs[0] + added)


@pytest.mark.parametrize("family", ["llama", "phi3"])
@torch.no_grad()
def test_tokens_that_are_left_dense_have_no_bias(family, tokens):
    loaded = tiny_loaded(family, layers=1)
    sizes = [projection.shape[0] for projection in loaded.view.layers[0].projections.values()]
    biases = {(0, column): torch.ones(size) for column, size in enumerate(sizes)}
    calibration = replace(Calibration.empty(loaded.view.layout, 0), tuned=biases)
    dense = loaded.model(tokens[:1], use_cache=False).logits
    with attach(loaded, SHARED, PLAN, calibration, dense_prefix=0.5):
        gated_logits = loaded.model(tokens[:1], use_cache=False).logits
    half = tokens.shape[1] // 2
    torch.testing.assert_close(gated_logits[:, :half], dense[:, :half])
    assert not torch.allclose(gated_logits[:, half:], dense[:, half:])


def test_only_matrices_that_drop_inputs_have_biases(tokens):
    loaded = tiny_loaded(layers=1)
    plan = SparsityPlan.uniform(loaded.view.layout, 0.0).with_cells({(0, 6): 0.5})
    assert set(tuned(loaded, SHARED, tokens, plan=plan).tuned) == {(0, 6)}
    nothing = SparsityPlan.uniform(loaded.view.layout, 0.0)
    assert tuned(loaded, SHARED, tokens, plan=nothing).tuned == {}


def test_biases_that_do_harm_are_left_out(tokens, monkeypatch):
    monkeypatch.setattr(tuning, "RATE", 600.0)
    loaded, reporter = tiny_loaded(layers=1), RecordingReporter()
    calibration = tuned(loaded, SHARED, tokens, reporter=reporter)
    assert not any(bias.any() for bias in calibration.tuned.values())
    assert any("biases of 0 are used" in line for line in reporter.lines)


def test_biases_are_tuned_where_nothing_else_has_gradients(tokens):
    loaded = tiny_loaded(layers=1)
    with torch.inference_mode():
        calibration = tuned(loaded, SHARED, tokens)
    assert any(bias.any() for bias in calibration.tuned.values())


@pytest.mark.parametrize("after", [1, 5])
def test_an_interrupted_descent_continues_bit_for_bit(after, tokens, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "SAVING_SECONDS", 0.0)
    loaded, folder = tiny_loaded(layers=1), tmp_path / "stages"
    whole = tuned(loaded, SHARED, tokens)
    reporter = RecordingReporter(after=after)
    with pytest.raises(Cancelled):
        tuned(loaded, SHARED, tokens, reporter=reporter, stages=Stages(reporter, folder))
    rest = RecordingReporter()
    again = tuned(loaded, SHARED, tokens, reporter=rest, stages=Stages(rest, folder))
    assert all(torch.equal(again.tuned[cell], bias) for cell, bias in whole.tuned.items())
    assert after == 1 or rest.calls[0][0] > 1, "finished steps are not taken again"


def test_a_kept_state_that_does_not_fit_is_left(tokens, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "SAVING_SECONDS", 0.0)
    loaded, reporter = tiny_loaded(layers=1), RecordingReporter()
    stages = Stages(reporter, tmp_path / "stages")
    stages.folder.mkdir()
    stages.write("tuning", {"free.0": torch.zeros(3)}, schedule={})
    again = tuned(loaded, SHARED, tokens, reporter=reporter, stages=stages)
    assert any("does not fit" in line for line in reporter.lines)
    assert all(torch.equal(again.tuned[cell], bias) for cell, bias in tuned(loaded, SHARED, tokens).tuned.items())


def test_rows_that_judge_the_biases_do_not_move_them(tmp_path, monkeypatch):
    text = varied_text(tmp_path / "rows.txt", tokens=512)
    rows = read_tokens(text.model_copy(update={"sequence": 64}), tiny_loaded(layers=1).tokenizer)
    moved: list[list[int]] = []
    judged: list[list[int]] = []
    measured = tuning._GatedModel.divergence

    def seen(self, biases, row):
        (moved if torch.is_grad_enabled() else judged).append(row[0].tolist())
        return measured(self, biases, row)

    monkeypatch.setattr(tuning._GatedModel, "divergence", seen)
    tuned(tiny_loaded(layers=1), SHARED, rows)
    assert moved
    assert judged
    assert not any(row in moved for row in judged)


def test_biases_of_another_model_are_refused(tokens, tmp_path):
    loaded, file = tiny_loaded(layers=1), tmp_path / "tuned.safetensors"
    calibration = tuned(loaded, SHARED, tokens)
    calibration.save(file)
    assert set(tuned_biases_of(loaded.view, file).tuned) == set(calibration.tuned)
    short = {cell: bias[:1] if cell == (0, 3) else bias for cell, bias in calibration.tuned.items()}
    for other in (short, {(-1, 0): calibration.tuned[0, 0]}, {(0, 0): calibration.tuned[0, 4]}):
        replace(calibration, tuned=other).save(file)
        with pytest.raises(WinaError, match=r"of another model|cannot be read"):
            tuned_biases_of(loaded.view, file)


def test_one_row_and_weights_in_files_are_refused(tokens):
    loaded = tiny_loaded(layers=1)
    with pytest.raises(WinaError, match="two rows"):
        tuned(loaded, SHARED, tokens[:1])
    with pytest.raises(WinaError, match="two rows"):
        check_tuning(loaded.view, 1)
    on_disk = replace(loaded, view=replace(loaded.view, mapped=MappedWeights(loaded.model)))
    with pytest.raises(WinaError, match="read from files"):
        tuned(on_disk, SHARED, tokens)
