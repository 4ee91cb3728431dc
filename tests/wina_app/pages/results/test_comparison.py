"""Runs side by side: differences against the reference, how sure they are, and what differs in the specs."""

import csv
import math
from dataclasses import replace

import pytest
from wina_app.pages.results.comparison import (
    TaskComparison,
    compare,
    heading,
)
from wina_app.pages.results.comparison_panel import ResultsComparison, columns_of
from wina_app.style.theme import apply_theme

from tests.wina_app.stored_runs import GLOBAL, NO_ROTATION, record_run, run_spec
from wina_core.analysis.comparison.compare_tasks import Comparison
from wina_core.analysis.statistics import holm
from wina_core.errors import WinaError
from wina_core.records import MetricRecord, SampleRecord, UnitRecord
from wina_core.records.texts import UNKNOWN
from wina_core.store import Store

SPECS = {
    "teal": run_spec("teal", NO_ROTATION, 0.5),
    "wina": run_spec("wina", NO_ROTATION, 0.5),
    "rotated": run_spec("wina", GLOBAL, 0.5),
    "dense": run_spec("dense", NO_ROTATION, 0.0),
}
MISSES = {0: 0.027, 1: 0.003}
"""By number, how far runs miss their targets: TEAL by more than WINA, as with calibrated thresholds."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Of "piqa" every document's answers are stored, of the others no more than standard errors; dense lacks it."""
    with Store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'results.sqlite'}") as opened:
        for number, spec in enumerate(SPECS.values()):
            record_run(opened, spec, shift=0.1 * number, miss=MISSES.get(number, -0.002))
        for name, right in (("teal", range(60)), ("wina", range(20, 100)), ("rotated", range(10, 90))):
            record_answers(opened, SPECS[name].content_hash(), right)
        yield opened


def record_answers(store, run, right, task="piqa") -> None:
    samples = tuple(
        SampleRecord(task=task, doc=doc, scores={"acc_norm": (float(doc in right), 1.0)}, target="a", response="1")
        for doc in range(100)
    )
    metric = MetricRecord(
        task=task, metric="acc_norm", value=len(right) / 100, stderr=0.04, n=100, higher_is_better=True
    )
    store.record_unit(UnitRecord(run=run, unit=task, metrics=(metric,), seconds=1.0, samples=samples))


def compared(store, *names):
    rows = {row.run: row for row in store.metric_rows()}
    return compare(store, [rows[SPECS[name].content_hash()] for name in names])


def task_of(comparison, task):
    return next(row for row in comparison.tasks if row.task == task)


def test_two_runs_are_paired_by_their_answers(store):
    comparison = compared(store, "teal", "wina")
    piqa = task_of(comparison, "piqa")
    (result,) = piqa.comparisons
    assert (result.test, result.first_only, result.second_only) == ("exact McNemar", 40, 20)
    assert result.effect == pytest.approx(0.2), "the run less the reference"
    assert piqa.p == (result.p,), "one comparison needs no correction"
    assert task_of(comparison, "demo_choice").comparisons[0].test == "unpaired t"
    assert any("not paired" in remark for remark in comparison.remarks)
    assert "Holm" not in heading(comparison)


def test_of_more_runs_each_is_held_against_the_first_with_corrected_p(store):
    comparison = compared(store, "teal", "wina", "rotated")
    piqa = task_of(comparison, "piqa")
    assert piqa.reference == pytest.approx(0.6)
    assert piqa.p == holm([comparison.p for comparison in piqa.comparisons])
    assert piqa.p[0] > piqa.comparisons[0].p or piqa.p[1] > piqa.comparisons[1].p
    assert "corrected by Holm for the 2 comparisons" in heading(comparison)
    assert comparison.names == (
        "teal, 52.7 % (target 50 %)",
        "wina, 50.3 % (target 50 %)",
        "wina, global + heads, 49.8 % (target 50 %)",
    )
    assert comparison.tasks[-1].task == "mean of tasks"


def test_runs_that_are_not_as_sparse_as_the_reference_are_flagged(store):
    comparison = compared(store, "teal", "wina", "dense")
    assert comparison.flags == ("", "⚠ 2.4 points denser than A", ""), "dense is no competitor at a sparsity"
    assert comparison.sparsity_tips[0] == "gated 52.7 %, target 50.0 %, ⚠ 2.7 points sparser than its target"
    assert compared(store, "wina", "rotated").flags == ("", ""), "0.5 points are within tolerance"


def tip_of(comparison, task, key):
    column = next(column for column in columns_of(comparison) if column.key == key)
    return column.tip(task_of(comparison, task))


def test_tooltips_name_the_test_and_the_interval_that_were_used(store):
    comparison = compared(store, "teal", "wina")
    assert tip_of(comparison, "piqa", "p B").startswith("exact McNemar, p 0.013 before any correction; 40 documents")
    assert tip_of(comparison, "piqa", "interval B") == (
        "exact McNemar, 95 % interval: Newcombe's score interval for paired proportions"
    )
    assert "unpaired t, 95 % interval: Student's t, from both standard errors" in tip_of(
        comparison, "demo_choice", "interval B"
    )
    assert tip_of(comparison, "mean of tasks", "p B").startswith("propagated, p ")
    assert tip_of(comparison, "mean of tasks", "interval B").endswith("; mean of demo_choice and piqa")


def test_the_smallest_p_of_few_documents_stands_beside_p(store):
    result = Comparison("f1", "f1", "f1", 4, 0.6, 0.4, -math.inf, math.inf, 0.1, 0.125, "sign flips", smallest_p=0.125)
    row = TaskComparison("f1", "f1", "f1", (result,), (0.25,), ((),))
    columns = columns_of(replace(compared(store, "teal", "wina"), tasks=(row,)))
    p, interval = (next(column for column in columns if column.key == key) for key in ("p B", "interval B"))
    assert p.text(row) == "0.250 (min 0.125)"
    assert p.tip(row) == "sign flips, p 0.125 before any correction; the documents that differ allow no p below 0.125"
    assert interval.text(row) == UNKNOWN
    assert "too few documents differ" in interval.tip(row)


def test_what_a_run_lacks_is_left_empty(store):
    comparison = compared(store, "teal", "dense", "wina")
    piqa = task_of(comparison, "piqa")
    assert piqa.comparisons[0] is None
    assert piqa.p[0] is None
    assert piqa.p[1] == piqa.comparisons[1].p, "corrected for the runs that have the task"
    texts = {column.key: column.text(piqa) for column in columns_of(comparison)}
    assert texts["effect B"] == "–"
    assert texts["effect C"] == "+0.200"


def test_runs_that_share_nothing_are_refused(store):
    rows = {row.run: row for row in store.metric_rows()}
    first, second = (rows[SPECS[name].content_hash()] for name in ("teal", "wina"))
    with pytest.raises(WinaError, match="no task in common"):
        compare(store, [first, second._replace(run="another")])


@pytest.fixture
def view(qtbot, qapp, store):
    apply_theme(qapp, "light")
    panel = ResultsComparison()
    qtbot.addWidget(panel)
    panel.resize(1000, 300)
    panel.show()
    panel.show_comparison(compared(store, "teal", "wina", "rotated"), "")
    return panel


def test_the_selected_metric_comes_first_even_where_it_is_not_tested(store):
    rows = {row.run: row for row in store.metric_rows()}
    pair = [rows[SPECS[name].content_hash()] for name in ("teal", "wina")]
    first = [(task.task, task.metric) for task in compare(store, pair, measure=("piqa", "acc_norm")).tasks]
    assert first[0] == ("piqa", "acc_norm")
    kl, *rest = compare(store, pair, measure=("demo:heldout", "kl")).tasks
    assert (kl.metric, kl.p, kl.interval(0)) == ("kl", (None,), "–")
    assert kl.comparisons[0].effect == pytest.approx(rows_of(store, "wina", "kl") - rows_of(store, "teal", "kl"))
    assert len(rest) == len(first)


def rows_of(store, name: str, metric: str) -> float:
    (value,) = [r.value for r in store.metric_rows() if (r.run, r.metric) == (SPECS[name].content_hash(), metric)]
    return value


def test_a_file_names_the_runs_in_its_titles(view, tmp_path):
    view.write(tmp_path / "comparison.csv")
    rows = list(csv.DictReader((tmp_path / "comparison.csv").read_text().splitlines()))
    piqa = next(row for row in rows if row["task"] == "piqa")
    wina, teal = "wina, 50.3 % (target 50 %)", "teal, 52.7 % (target 50 %)"
    assert float(piqa[f"effect: {wina}"]) == pytest.approx(0.2)
    assert float(piqa[f"low: {wina}"]) < 0.2 < float(piqa[f"high: {wina}"])
    assert float(piqa[teal]) == pytest.approx(0.6)
