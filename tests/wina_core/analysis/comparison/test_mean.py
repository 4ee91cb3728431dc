"""The mean over tasks: one rule, whoever compares two runs."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.wina_core.report.report_study import fill, named, runs, study, unit
from wina_core.analysis.comparison.compare_runs import compare_with
from wina_core.analysis.comparison.compare_tasks import MEAN_OF_TASKS, Comparison
from wina_core.analysis.comparison.study_runs import comparable, shared_study, study_runs
from wina_core.records import MetricRecord
from wina_core.report.findings import gather
from wina_core.report.significance import significance
from wina_core.specs import EvaluationSpec, TaskSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.studies.published import COMMONSENSE

ADDITIONAL = study(paper="additional", evaluation=EvaluationSpec(tasks=(*COMMONSENSE, "mmlu"), fidelity=None))
"""A study whose published mean is over eight of its nine tasks."""
OWN = study(
    name="own", paper="", evaluation=EvaluationSpec(tasks=(TaskSpec(name="mine", metric="f1"), "yours"), fidelity=None)
)


def fill_own(store: Store) -> None:
    """Store two tasks; the study declares a metric for one of them."""
    store.save_study(OWN, named(OWN))
    for run in runs(OWN):
        ahead = 0.1 if run.method.name == "wina" else 0.0
        both = unit(run, "mine", 0.5 + ahead, "acc_norm")
        f1 = MetricRecord(task="mine", metric="f1", value=0.3 - ahead, stderr=0.01, n=400)
        store.record_unit(both.model_copy(update={"metrics": (*both.metrics, f1)}))
        store.record_unit(unit(run, "yours", 0.6 + ahead))


def pair(store: Store, of: StudySpec) -> tuple[str, str]:
    """Return the hashes of WINA and TEAL at 65 %."""
    run, reference = comparable(study_runs(store, of), "TEAL")[-1]
    return run.run, reference.run


def numbers(mean: Comparison | None) -> tuple[float, ...]:
    assert mean is not None
    return mean.first, mean.second, mean.low, mean.high, mean.p


def test_the_report_and_both_ways_of_comparing_have_one_mean(
    store: Store, compare: Callable[..., list[dict[str, Any]]]
) -> None:
    fill(store, ADDITIONAL, samples=40)
    for spec in runs(ADDITIONAL):
        store.record_unit(unit(spec, "mmlu", 0.9 if spec.method.name == "wina" else 0.1, samples=40))
    run, reference = pair(store, ADDITIONAL)
    comparison = compare_with(store, run, reference, study=ADDITIONAL)
    assert set(comparison.averaged) == set(COMMONSENSE)
    assert set(compare_with(store, run, reference).averaged) == {*COMMONSENSE, "mmlu"}
    findings = gather(store, ADDITIONAL)
    report = significance(store, findings)
    assert numbers(report[-1].result.mean) == numbers(comparison.mean)
    reported, tested = findings.mean(run, dict.fromkeys(COMMONSENSE, 1))[0], numbers(comparison.mean)
    assert reported is not None
    assert reported.value == pytest.approx(100 * tested[0]), "the mean in the table is the one that is tested"
    for words in (("--study", ADDITIONAL.name), (run, reference)):
        line = [line for line in compare(*words) if line["task"] == MEAN_OF_TASKS][-1]
        assert tuple(line[name] for name in ("first", "second", "low", "high", "p")) == numbers(comparison.mean)


def test_the_metric_is_the_one_that_the_study_declares(
    store: Store, compare: Callable[..., list[dict[str, Any]]]
) -> None:
    fill_own(store)
    run, reference = pair(store, OWN)
    declared = compare_with(store, run, reference, study=OWN, allow_unpaired=True)
    assert {task.task: task.metric for task in declared.tasks} == {"mine": "f1", "yours": "acc"}
    assert (declared.mean, declared.averaged) == (None, ()), "f1 and acc have no mean that says something"
    preferred = compare_with(store, run, reference, allow_unpaired=True)
    assert {task.task: task.metric for task in preferred.tasks} == {
        "mine": "acc_norm",
        "yours": "acc",
    }
    assert preferred.mean is not None
    assert preferred.mean.effect == pytest.approx(0.1)
    lines = compare(run, reference, "--unpaired")
    assert [line["metric"] for line in lines] == ["f1", "acc"], "the two runs are of one study"


def test_two_runs_share_the_study_that_was_launched_last(store: Store) -> None:
    first, second = study(name="first"), study(name="second")
    for launched in (first, second):
        fill(store, launched)
    run, reference = (spec.content_hash() for spec in runs(first)[:2])
    assert shared_study(store, run, reference) == second
    fill_own(store)
    assert shared_study(store, run, runs(OWN)[0].content_hash()) is None
