"""The time left of an evaluation is the sum of the usual seconds of its missing measurements."""

import pytest

from wina_core.jobs import EvaluateJob, Partial, PendingRun, RunFailed, RunFinished, RunStarted
from wina_core.jobs.progress import MeasurementTimes
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
    assert times.left(1.0, [name(run(0.5))]) is None, "counting a cost says nothing about the others"


def test_those_that_arrived_go_before_stored_ones_and_these_before_the_mean() -> None:
    first, second, dense, other = runs = (run(0.4), run(0.5), run(None), run(0.5, "other"))
    stored = {key(first, FIDELITY): 100.0, key(dense, FIDELITY): 30.0, "of another job": 1e6}
    times = MeasurementTimes(EvaluateJob(runs=runs, stored=stored))
    assert times.left() == pytest.approx(2 * 100.0 + 30.0 + (100.0 + 30.0) / 2 * 5)
    times.take(RunStarted(job_id="1", run=name(first)))
    times.take(measured(first, FIDELITY, 60.0))
    assert times.left(1.0, [name(first)]) == pytest.approx(60.0 + 30.0 + (60.0 + 30.0) / 2 * 5)
    times.take(measured(first, "choice", 6.0))
    mean = (60.0 + 30.0 + 6.0) / 3
    assert times.left(2.0, [name(second)]) == pytest.approx(60.0 + 6.0 + 30.0 + mean * 3)
    assert times.usual(name(other)) == pytest.approx(mean)


def test_the_part_under_way_is_done_and_engines_share_the_others() -> None:
    first, second = runs = (run(0.4), run(0.5))
    stored = {key(first, FIDELITY): 100.0, key(first, "choice"): 10.0}
    times = MeasurementTimes(EvaluateJob(runs=runs, stored=stored))
    assert times.left(0.75, [name(first)]) == pytest.approx(220.0 - 75.0)
    assert times.left(1.0, [name(first), name(second)]) == pytest.approx((220.0 - 100.0) / 2)
    assert times.left(2.0, [name(first)]) == pytest.approx(20.0), "two have passed the layers together"
    assert times.usual(name(first)) == 100.0, "the fidelity is measured first"
    times.take(measured(first, FIDELITY, 100.0))
    assert times.left(0.75, [name(first)]) == pytest.approx(120.0), "progress from before it arrived"
    assert times.usual(name(first)) == 10.0


def test_a_failed_run_is_not_waited_for() -> None:
    first, second = runs = (run(0.4), run(0.5))
    times = MeasurementTimes(EvaluateJob(runs=runs, stored={key(first, FIDELITY): 3.0}))
    times.take(RunFailed(job_id="1", run=name(first), error="A fault."))
    assert times.left(3.5, [name(second)]) == pytest.approx(6.0 - 1.5)
    for unit in second.units:
        times.take(measured(second, unit, 3.0))
    times.take(RunFinished(job_id="1", run=name(second)))
    assert times.left(6.0, []) == 0.0
    assert times.usual(name(second)) is None
