"""An inspected gate against its equations in float64, against a gated model, and what follows from its record."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.analysis.gate_views import InspectedCell, agreement, highest
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.gating import attach, inspection
from wina_core.compute.gating.inspection import inspect_gate
from wina_core.compute.models.folded_norms import fold_norms, foldable
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
from wina_core.records.gates import GateRecord, GateTarget
from wina_core.specs import CalibrationSpec, MethodSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

PROMPT = "A gate that is weighed."
TEAL, WINA = MethodSpec(name="teal"), MethodSpec(name="wina")


def inspected(
    loaded: LoadedModel, projection: str, *targets: GateTarget, calibration: Calibration | None = None, tokens: int = 64
) -> GateRecord:
    return inspect_gate(loaded, (1, projection), PROMPT, targets, tokens, lambda _: calibration, NullReporter())


def asking(method: MethodSpec, target: float = 0.5, rho: float | None = None) -> GateTarget:
    return GateTarget(method=method, target=target, rho=rho)


def reaching(loaded: LoadedModel, projection: str) -> Tensor:
    """The input of a projection of layer 1 on the prompt, [tokens, n], caught in a pass of the whole model."""
    caught: list[Tensor] = []
    linear = loaded.view.layers[1].projections[projection].linear
    hook = linear.register_forward_pre_hook(lambda _, args: caught.append(args[0]))
    with torch.no_grad():
        loaded.model(torch.tensor([loaded.tokenizer(PROMPT)["input_ids"]]), use_cache=False)
    hook.remove()
    return caught[0][0]


def calibrated(tmp_path, loaded: LoadedModel, method: MethodSpec) -> Calibration:
    spec = CalibrationSpec(text=TextSpec(source=tiny_text(tmp_path), tokens=192, sequence=64))
    return calibrate(loaded, method, spec, NullReporter())


def top(score: Tensor, target: float) -> list[list[bool]]:
    """By sorting in plain Python."""
    rows = []
    for row in score.tolist():
        keep = max(1, len(row) - int(target * len(row) + 0.5))
        best = sorted(range(len(row)), key=lambda index: (-row[index], index))[:keep]
        rows.append([index in best for index in range(len(row))])
    return rows


@pytest.fixture(scope="module")
def exact() -> LoadedModel:
    return tiny_loaded(dtype=torch.float64)


@pytest.mark.parametrize("projection", ["q", "down"])
@pytest.mark.parametrize("method", [TEAL, WINA], ids=["teal", "wina"])
def test_top_k_is_that_of_the_equation(exact, projection, method):
    record = inspected(exact, projection, asking(method, 0.4))
    weight, x = exact.view.layers[1].projections[projection].weight, reaching(exact, projection)
    norms = (weight**2).sum(0).sqrt()
    mask = torch.tensor(top(x.abs() * (norms if method == WINA else 1.0), 0.4))
    (gate,) = record.gates
    assert gate.mask.array().tolist() == mask.tolist()
    np.testing.assert_allclose(record.inputs.array(), x.abs(), rtol=1e-12)
    np.testing.assert_allclose(record.norms.array(), norms, rtol=1e-12)
    error = ((x * ~mask) @ weight.T).norm() / (x @ weight.T).norm()
    assert gate.output_error == pytest.approx(float(error), rel=1e-6)
    energy = ((x * norms) ** 2 * mask).sum() / ((x * norms) ** 2).sum()
    assert gate.kept_energy == pytest.approx(float(energy), rel=1e-6)


@pytest.mark.parametrize(
    ("method", "rho"),
    [
        (TEAL, None),
        (MethodSpec(name="wina", masks="shared"), None),
        (MethodSpec(name="wina", variant="as_released"), None),
        (MethodSpec(name="rsparse"), None),
        (MethodSpec(name="rsparse"), 0.5),
        (MethodSpec(name="rsparse", variant="as_released"), None),
        (MethodSpec(name="rsparse", variant="as_released"), 0.5),
    ],
)
def test_the_error_is_that_of_the_gated_layer(exact, method, rho):
    record = inspected(exact, "gate", asking(method, rho=rho))
    projection, x = exact.view.layers[1].projections["gate"], reaching(exact, "gate")
    bias = projection.bias
    dense = projection.linear(x)[..., projection.rows] - bias
    spec = method if rho is None else method.model_copy(update={"rho": rho})
    with attach(exact, spec, UniformSparsity(sparsity=0.5)) as gates:
        gated = projection.linear(x)[..., projection.rows] - bias
        measured = {(measured.layer, measured.projection): measured.value for measured in gates.measured()}
    (gate,) = record.gates
    assert gate.output_error == pytest.approx(float((gated - dense).norm() / dense.norm()), rel=1e-5)
    low_rank = gate.rank * (80 + 32) / (80 * 32)
    assert 1 - gate.mask.array().mean() - low_rank == pytest.approx(measured[1, "gate"])


def test_cats_is_inspected_where_its_mask_is_applied(exact):
    cats = MethodSpec(name="cats")
    record = inspected(exact, "down", asking(cats), asking(TEAL))
    x = reaching(exact, "gate")
    projection = exact.view.layers[1].projections["gate"]
    z = functional.silu(x @ projection.weight.T + projection.bias).abs()
    gate = InspectedCell(record).gates[0]
    assert gate.decision.scored == "activation"
    np.testing.assert_allclose(gate.scores, z, rtol=1e-9)
    assert gate.mask.tolist() == top(z, 0.5)
    assert not exact.view.layers[1].mlp[0].act_fn._forward_hooks
    for name, message in (("up", "inspect it on down"), ("q", "leaves q dense")):
        with pytest.raises(WinaError, match=message):
            inspected(exact, name, asking(cats))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("projection", "method"),
    [
        *((name, MethodSpec(name="wina", selection="mixed")) for name in ("q", "up")),
        *(
            ("down", method)
            for method in (
                TEAL,
                WINA,
                MethodSpec(name="rsparse"),
                MethodSpec(name="scap"),
                MethodSpec(name="scap", variant="own"),
                MethodSpec(name="cats"),
                MethodSpec(name="larosa"),
                MethodSpec(name="teal", selection="threshold"),
                MethodSpec(name="teal", variant="as_released", selection="threshold"),
                MethodSpec(name="wina", selection="threshold", correction="mean"),
            )
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.label} {value.selection}",
)
def test_another_target_gives_the_mask_and_energy_that_the_engine_finds(tmp_path, dtype, projection, method):
    loaded = tiny_loaded(dtype=dtype)
    calibration = calibrated(tmp_path, loaded, method) if method.needs_calibration else None
    first, second = (
        InspectedCell(inspected(loaded, projection, asking(method, target), calibration=calibration)).gates[0]
        for target in (0.5, 0.73)
    )
    mask = first.mask_at(0.73)
    assert mask is not None
    assert np.array_equal(mask, second.mask)
    assert not np.array_equal(mask, first.mask)
    if method.correction == "none":
        assert first.kept_energy(mask) == pytest.approx(
            second.decision.kept_energy, abs=2e-3 if dtype != torch.float32 else 1e-5
        )
    boundary = first.thresholds(0.73, mask)[:, None]
    assert not (mask & (first.scores < boundary)).any()
    assert not (~mask & (first.scores > boundary)).any(), "equal scores alone are kept or dropped by their place"


@pytest.mark.parametrize("rho", [None, 1.0, 0.8])
def test_thresholds_of_rsparse_as_released_are_of_what_the_target_s_share_is_scored_by(tmp_path, exact, rho):
    method = MethodSpec(name="rsparse", variant="as_released", selection="threshold")
    calibrations: list[Calibration] = []

    def calibrating(spec: MethodSpec) -> Calibration:
        calibrations.append(calibrated(tmp_path, exact, spec))
        return calibrations[-1]

    record = inspect_gate(exact, (1, "up"), PROMPT, [asking(method, rho=rho)], 64, calibrating, NullReporter())
    weight, x = exact.view.layers[1].projections["up"].weight, reaching(exact, "up")
    score = x.abs() * weight.norm(dim=0) if rho == 0.8 else x.abs()
    name = "wina" if rho == 0.8 else "teal"
    right = calibrated(tmp_path, exact, MethodSpec(name=name, selection="threshold"))
    cut = right.threshold(1, exact.view.layout.projections.index("up"), 0.5 if rho != 0.8 else 1 - 0.5 * 0.8)
    assert record.gates[0].mask.array().tolist() == (score > cut).tolist()


def test_agreement_counts_like_decisions_and_common_ones():
    first = np.array([[True, True, False, False]])
    second = np.array([[True, False, True, False]])
    alike, jaccard = agreement([first, second, ~first, np.zeros_like(first)])
    assert alike[0].tolist() == [1.0, 0.5, 0.0, 0.5]
    np.testing.assert_allclose(jaccard[0], [1.0, 1 / 3, 0.0, 0.0])
    assert jaccard[3, 3] == 1.0
    assert np.array_equal(alike, alike.T)


def test_long_prompts_and_wide_matrices_are_cut_short(exact, monkeypatch):
    assert inspected(exact, "q", asking(TEAL), tokens=5).tokens == tuple(PROMPT[:5])
    monkeypatch.setattr(inspection, "MOST_NUMBERS", 3 * 80 + 79)
    record = inspected(exact, "down", asking(TEAL))
    assert record.tokens == tuple(PROMPT[:3])
    assert record.prompt_tokens == len(PROMPT)


def test_what_cannot_be_inspected_is_refused_in_one_sentence(exact):
    with pytest.raises(WinaError, match="no layer 9; choose one from 0 to 2"):
        inspect_gate(exact, (9, "q"), PROMPT, [asking(TEAL)], 8, lambda _: None, NullReporter())
    with pytest.raises(WinaError, match='no projection "x"'):
        inspected(exact, "x", asking(TEAL))
    with pytest.raises(WinaError, match="leaves q dense; leave it out"):
        inspected(exact, "q", asking(MethodSpec(name="dense")))
    with pytest.raises(WinaError, match="leave rho out"):
        inspected(exact, "q", asking(TEAL, rho=0.5))


@pytest.mark.parametrize("projection", ["q", "up", "down"])
def test_folded_norms_change_what_is_scored_but_not_what_is_kept(projection):
    plain, folded = tiny_loaded(dtype=torch.float64), tiny_loaded(dtype=torch.float64)
    fold_norms(folded.view, foldable(folded.view, "exact"))
    targets = [asking(WINA), asking(MethodSpec(name="wina", masks="shared")), asking(TEAL)]
    before, after = inspected(plain, projection, *targets), inspected(folded, projection, *targets)
    assert (before.folded, after.folded) == (False, True)
    for mine, theirs in zip(before.gates, after.gates, strict=True):
        assert np.array_equal(mine.mask.array(), theirs.mask.array())
    shared, teal = after.gates[1:]
    assert shared.scale is None
    assert np.allclose(after.inputs.array() * teal.scale.array(), before.inputs.array())
    cell = InspectedCell(after)
    assert np.array_equal(cell.gates[1].mask_at(0.3), highest(cell.inputs, round(0.7 * cell.inputs.shape[1])))
