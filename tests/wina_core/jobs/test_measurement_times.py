"""The time left of an evaluation is the sum of the usual seconds of its missing measurements."""

import pytest

from wina_core.jobs import EvaluateJob, Partial, PendingRun, RunFailed, RunFinished
from wina_core.jobs.progress import MeasurementTimes, expected_seconds
from wina_core.records import UnitRecord
from wina_core.specs import COST, FIDELITY, EvaluationSpec, MethodSpec, ModelSource, RunSpec, TextSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.runs import measurement_key

EVALUATION = EvaluationSpec(tasks=("choice",), fidelity=TextSpec(), cost_context=128)


def run(sparsity: float | None, location: str = "demo") -> PendingRun:
    """A gated run, or without a sparsity the dense one."""
    model = ModelSource(location=location)
    if sparsity is None:
        spec = RunSpec(model=model, evaluation=EVALUATION)
    else:
        plan = UniformSparsity(sparsity=sparsity)
        spec = RunSpec(model=model, method=MethodSpec(name="wina"), plan=plan, evaluation=EVALUATION)
    return PendingRun(spec=spec, units=(COST, "choice", FIDELITY))


def name(pending: PendingRun) -> str:
    return pending.spec.content_hash()


def measured(pending: PendingRun, unit: str, seconds: float) -> Partial:
    return Partial(job_id="1", unit=UnitRecord(run=name(pending), unit=unit, metrics=(), seconds=seconds))


def key(pending: PendingRun, unit: str) -> str:
    return measurement_key(pending.spec, unit)


def test_nothing_is_known_before_the_first_measurement_without_stored_ones() -> None:
    times = MeasurementTimes(EvaluateJob(runs=(run(0.5),)))
    assert times.left() is None
    times.take(measured(run(0.5), COST, 0.01))
    assert times.left(1.0) is None, "counting a cost says nothing about the others"


def test_those_that_arrived_go_before_stored_ones_and_these_before_the_mean() -> None:
    first, _, dense, _ = runs = (run(0.4), run(0.5), run(None), run(0.5, "other"))
    stored = {key(first, FIDELITY): 100.0, key(dense, FIDELITY): 30.0, "of another job": 1e6}
    times = MeasurementTimes(EvaluateJob(runs=runs, stored=stored))
    assert times.left() == pytest.approx(2 * 100.0 + 30.0 + (100.0 + 30.0) / 2 * 5)
    times.take(measured(first, FIDELITY, 60.0))
    assert times.left() == pytest.approx(60.0 + 30.0 + (60.0 + 30.0) / 2 * 5)
    times.take(measured(first, "choice", 6.0))
    assert times.left() == pytest.approx(60.0 + 6.0 + 30.0 + (60.0 + 30.0 + 6.0) / 3 * 3)


def test_the_part_under_way_is_done_and_engines_share_the_others() -> None:
    first, second = runs = (run(0.4), run(0.5))
    times = MeasurementTimes(EvaluateJob(runs=runs, stored={key(first, FIDELITY): 100.0, key(first, "choice"): 10.0}))
    assert times.left(1.5) == pytest.approx(220.0 * 0.75)
    assert times.left(1.5, engines=2) == pytest.approx(220.0 * 0.75 / 2)
    times.take(measured(first, FIDELITY, 100.0))
    assert times.left(0.75) == pytest.approx(120.0), "progress from before it arrived"
    times.take(RunFailed(job_id="1", run=name(first), error="A fault."))
    assert times.left(3.0) == pytest.approx(110.0)
    times.take(RunFinished(job_id="1", run=name(second)))
    assert times.left(6.0) == 0.0


def test_the_expected_time_of_missing_measurements_is_that_of_stored_ones() -> None:
    runs = (run(0.4), run(None))
    expected = expected_seconds(runs, {key(runs[0], FIDELITY): 3.0})
    assert expected == {COST: [None, None], "choice": [None, None], FIDELITY: [3.0, None]}
