"""The synthetic study: networks, rules, the unit that is stored, and the paper's table."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from wina_core.compute.reporter import NullReporter
from wina_core.compute.synthetic import (
    Network,
    draw,
    kaiming_uniform,
    masked,
    masked_with_low_rank,
    measure_synthetic,
    network_errors,
    orthogonalize_columns,
)
from wina_core.errors import WinaError
from wina_core.model_info.resolve import resolve
from wina_core.records import METRIC_UNITS
from wina_core.specs import (
    SYNTHETIC,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    SyntheticSpec,
)
from wina_core.specs.plans import UniformSparsity

SMALL = SyntheticSpec(size=32, seeds=3)
TEAL, WINA = MethodSpec(name="teal"), MethodSpec(name="wina")


def run(method: MethodSpec = WINA, sparsity: float = 0.5, spec: SyntheticSpec = SMALL, **changes: object) -> RunSpec:
    return RunSpec(
        model=ModelSource(location=SYNTHETIC),
        method=method,
        plan=UniformSparsity(sparsity=sparsity),
        evaluation=EvaluationSpec(synthetic=spec),
    ).model_copy(update=changes)


def metrics(spec: RunSpec) -> dict[tuple[str, str], float]:
    record = measure_synthetic(spec, NullReporter())
    return {(metric.task, metric.metric): metric.value for metric in record.metrics}


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(2, 12), st.floats(0, 0.95))
def test_wina_is_never_worse_than_teal_where_columns_are_orthogonal(seed, outputs, inputs, sparsity):
    generator = torch.Generator().manual_seed(seed)
    weight = orthogonalize_columns(kaiming_uniform(outputs, inputs, generator))
    network = Network(torch.randn(inputs, generator=generator, dtype=torch.float64), (weight,))
    wina, teal = (network_errors(network, masked(sparsity, weighted)).error for weighted in (True, False))
    assert wina <= teal * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("name", ["lemma", "theorem"])
def test_columns_are_orthogonal_and_the_map_is_the_drawn_one_rotated(name):
    for weight in draw(name, 24, 5).matrices:
        gram = weight.T @ weight
        assert (gram - gram.diag().diag()).abs().max() < 1e-12
        assert (gram.diag().diff() <= 1e-12).all()
    drawn = kaiming_uniform(12, 24, torch.Generator().manual_seed(1))
    torch.testing.assert_close(drawn @ drawn.T, orthogonalize_columns(drawn) @ orthogonalize_columns(drawn).T)
    assert drawn.abs().max() <= 1 / math.sqrt(24)


def test_errors_by_hand():
    """x = (1, 2, 3), columns of length 4, 1, 1/2: TEAL drops the 1, whose column weighs most, WINA the 3."""
    network = Network(torch.tensor([1.0, 2, 3]).double(), (torch.diag(torch.tensor([4.0, 1, 0.5])).double(),))
    assert network_errors(network, masked(1 / 3, weighted=False)).error == 4
    assert network_errors(network, masked(1 / 3, weighted=True)).error == 1.5
    deep = Network(network.x, (network.matrices[0], torch.eye(3).double() * 2))

    def silu(value: float) -> float:
        return value / (1 + math.exp(-value))

    # The first matrix drops the 1, the second the zero that is left of it; then the 1.5 comes before.
    assert network_errors(deep, masked(1 / 3, weighted=False)).error == pytest.approx(2 * silu(4))
    # WINA drops the 3 (4, 2, 1.5), then its zero.
    assert network_errors(deep, masked(1 / 3, weighted=True)).error == pytest.approx(2 * silu(1.5))


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3, 0.6]), st.sampled_from([0.5, 0.8, 1.0]))
def test_r_sparse_is_its_equation_written_naively(seed, sparsity, rho):
    weight = draw("theorem", 40, seed).matrices[1]
    outputs, inputs = weight.shape
    x = torch.randn(inputs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    y, read, norms = masked_with_low_rank(sparsity, rho)(weight, x)
    rank = math.floor(outputs * inputs * (1 - sparsity) * (1 - rho) / (outputs + inputs))
    keep = inputs - math.floor((1 - (1 - sparsity) * rho) * inputs + 0.5)
    mask = torch.zeros(inputs, dtype=torch.float64)
    mask[sorted(range(inputs), key=lambda i: -abs(float(x[i])))[:keep]] = 1
    u, s, vt = torch.linalg.svd(weight, full_matrices=False)
    low_rank = (u[:, :rank] * s[:rank]) @ vt[:rank]
    torch.testing.assert_close(y, weight @ (mask * x) + low_rank @ ((1 - mask) * x))
    assert (read, norms) == (keep * outputs + rank * (outputs + inputs), 0)
    assert read <= (1 - sparsity) * weight.numel() + outputs


def test_a_unit_states_mean_standard_error_deviation_and_both_sparsities():
    spec = run(MethodSpec(name="rsparse", rho=0.8))
    record = measure_synthetic(spec, NullReporter())
    rule = masked_with_low_rank(0.5, 0.8)
    errors = torch.tensor(
        [network_errors(draw("lemma", 32, seed), rule).error for seed in range(3)], dtype=torch.float64
    )
    mean, deviation = record.metrics[:2]
    assert {mean.metric, deviation.metric} <= METRIC_UNITS.keys()
    assert (mean.task, mean.metric, mean.n, mean.higher_is_better) == ("lemma", "error", 3, False)
    assert mean.value == pytest.approx(float(errors.mean()))
    assert deviation.value == pytest.approx(float(errors.std()))
    assert mean.stderr == pytest.approx(deviation.value / math.sqrt(3))
    # Of 32 x 32, 16 x 32 and 32 x 16 weights: 13, 13 and 6 kept columns, and a low-rank part of rank 1 each.
    read = (13 * 32 + 64) + (13 * 16 + 48) + (6 * 32 + 48)
    assert record.gated_sparsity == record.net_sparsity == pytest.approx(1 - read / (1024 + 2 * 512))
    assert (record.run, record.unit) == (spec.content_hash(), SYNTHETIC)


def test_the_norms_that_scores_read_count_in_full():
    for method, norms in ((TEAL, 0), (WINA, 32), (MethodSpec(name="rsparse", rho=0.8), 0)):
        record = measure_synthetic(
            run(method, spec=SyntheticSpec(networks=("lemma",), size=32, seeds=1)), NullReporter()
        )
        assert record.gated_sparsity - record.net_sparsity == pytest.approx(norms / 32**2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": MethodSpec(name="dense")}, "choose one of teal"),
        ({"method": MethodSpec(name="rsparse")}, "needs its rho"),
        ({"method": MethodSpec(name="cats", variant="as_released")}, "has no variant"),
        ({"method": MethodSpec(name="rsparse", variant="as_released", rho=0.8)}, "leave variant"),
        ({"method": MethodSpec(name="wina", masks="shared")}, "separate masks"),
        ({"rotation": RotationSpec()}, "no rotation"),
    ],
)
def test_what_random_networks_do_not_have_is_refused(changes, message):
    with pytest.raises(WinaError, match=message):
        measure_synthetic(run(**changes), NullReporter())


def test_the_model_and_the_measurement_belong_together():
    with pytest.raises(ValidationError, match="belong together"):
        RunSpec(model=ModelSource(location="demo"), evaluation=EvaluationSpec(synthetic=SMALL))
    with pytest.raises(ValidationError, match="belong together"):
        RunSpec(model=ModelSource(location=SYNTHETIC))
    assert resolve(ModelSource(location=SYNTHETIC)) == ModelSource(location=SYNTHETIC)


def test_the_command_prints_the_comparison(tmp_path, capsys, monkeypatch):
    from wina_core.cli import app
    from wina_core.studies import published

    monkeypatch.setattr(published, "ERROR_SIZE", 16)
    database = f"sqlite:///{tmp_path / 'results.db'}"
    words = ["synthetic", "--seeds", "2", "--network", "lemma", "--sparsity", "0.5", "--json"]
    app([*words, "--database", database], standalone_mode=False)
    lines = json.loads(capsys.readouterr().out)
    assert [line["method"] for line in lines] == ["teal", "rsparse (rho 0.98)", "wina"]
