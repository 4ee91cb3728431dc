"""Thresholds corrected in the gated model, so that its matrices reach their targets."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.gating import attach
from wina_core.compute.gating.rules import rules
from wina_core.compute.gating.tuning import correct_fractions
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.errors import Cancelled
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


def test_matrices_that_share_a_mask_still_do(tmp_path):
    """The ranks beside it differ, so that what q, k and v drop in all does too."""
    loaded, method, plan = (
        tiny_loaded(layers=1),
        spec("rsparse", masks="shared", rho=0.8),
        UniformSparsity(sparsity=0.5),
    )
    calibration, tokens = calibrated(loaded, method, varied_text(tmp_path / "text.txt", tokens=512))
    corrected = correct(loaded, method, plan, calibration, tokens)
    (row,) = rules(loaded.view, method, corrected, calibration)
    assert row["q"] is row["k"] is row["v"]
    assert row["gate"] is row["up"]
    assert corrected.fractions != corrected.masks


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_correction_can_be_cancelled_and_leaves_no_trace(tmp_path, after):
    loaded, method, plan = tiny_loaded(layers=2), spec("cats"), UniformSparsity(sparsity=0.3)
    calibration, tokens = calibrated(loaded, method, varied_text(tmp_path / "text.txt", tokens=8192))
    modules = {name: set(module.__dict__) for name, module in loaded.model.named_modules()}
    with pytest.raises(Cancelled):
        correct(loaded, method, plan, calibration, tokens, RecordingReporter(after))
    assert {name: set(module.__dict__) for name, module in loaded.model.named_modules()} == modules
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in loaded.model.modules())
