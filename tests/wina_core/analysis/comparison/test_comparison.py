"""Paired comparisons: what two stored runs must share."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.report.report_study import CONFIGURATIONS, named, runs, study
from wina_core.analysis.comparison.compare_runs import compare_runs, weighted_tasks
from wina_core.analysis.comparison.compare_tasks import EXCHANGED, FLIPPED, MCNEMAR, UNPAIRED, Comparison, mean
from wina_core.errors import WinaError
from wina_core.records import MetricRecord, SampleRecord, UnitRecord
from wina_core.records.intervals import newcombe, t_p
from wina_core.specs import EvaluationSpec, RunSpec
from wina_core.store import Store
from wina_core.studies.published import COMMONSENSE

STUDY = study(
    name="compared",
    paper="",
    configurations=CONFIGURATIONS[1:],
    sparsities=(0.5,),
    evaluation=EvaluationSpec(tasks=("choice", "text"), fidelity=None),
)
TEAL, WINA = runs(STUDY)
RIGHT = {"teal": [1, 1, 0, 0, 1, 0, 0, 0, 0, 0], "wina": [1, 1, 1, 1, 1, 1, 1, 0, 0, 1]}
LIKELIHOODS = {"teal": [-30.0, -20.0, -25.0], "wina": [-28.0, -19.0, -25.5]}
WORDS = [10.0, 7.0, 9.0]


def documents(task: str, metric: str, pairs: Iterable[tuple[float, float]], target: str = "0") -> list[SampleRecord]:
    """Samples with a score and its weight each."""
    return [
        SampleRecord(task=task, doc=doc, scores={metric: pair}, target=target, response="[]")
        for doc, pair in enumerate(pairs)
    ]


def unit(run: RunSpec, name: str, samples: Sequence[SampleRecord], *metrics: MetricRecord) -> UnitRecord:
    return UnitRecord(run=run.content_hash(), unit=name, metrics=metrics, seconds=1, samples=tuple(samples))


def choice(run: RunSpec, keep: int | None = 10, prompts: str = "same", target: str = "0") -> UnitRecord:
    """The task "choice": accuracies; of `keep` documents the samples are there, of None none."""
    right = RIGHT[run.method.name]
    accuracy = sum(right) / 10
    metric = MetricRecord(
        task="choice", metric="acc", value=accuracy, stderr=0.16, n=10, higher_is_better=True, prompt_hash=prompts
    )
    return unit(
        run, "choice", documents("choice", "acc", ((score, 1.0) for score in right), target)[: keep or 0], metric
    )


def text(run: RunSpec) -> UnitRecord:
    """The task "text": perplexities."""
    logs = LIKELIHOODS[run.method.name]
    value = math.exp(-sum(logs) / sum(WORDS))
    metric = MetricRecord(task="text", metric="word_perplexity", value=value, n=3, higher_is_better=False)
    return unit(run, "text", documents("text", "word_perplexity", zip(logs, WORDS, strict=True)), metric)


@pytest.fixture
def store(store: Store) -> Store:
    store.save_study(STUDY, named(STUDY))
    return store


def record(store: Store, *units: UnitRecord) -> None:
    for unit_record in units:
        store.record_unit(unit_record)


def compared(store: Store, allow_unpaired: bool = False) -> Sequence[Comparison]:
    return compare_runs(store, WINA.content_hash(), TEAL.content_hash(), allow_unpaired=allow_unpaired)


def test_accuracies_are_paired_by_document(store: Store) -> None:
    record(store, choice(TEAL), choice(WINA))
    (comparison,) = compared(store)
    assert (comparison.first, comparison.second, comparison.n, comparison.test) == (0.8, 0.3, 10, MCNEMAR)
    assert (comparison.first_only, comparison.second_only) == (5, 0)
    assert comparison.p == pytest.approx(2 / 2**5)
    assert (comparison.low, comparison.high) == pytest.approx(newcombe(3, 5, 0, 2))
    assert comparison.stderr == pytest.approx(np.std([0, 0, 1, 1, 0, 1, 1, 0, 0, 1], ddof=1) / math.sqrt(10))


def test_perplexities_are_compared_by_exchanging_the_runs_of_each_document(store: Store) -> None:
    record(store, text(TEAL), text(WINA))
    (comparison,) = compared(store)
    assert (comparison.test, comparison.p, comparison.smallest_p) == (EXCHANGED, 0.5, 0.25)
    assert comparison.first == pytest.approx(math.exp(72.5 / 26))
    assert comparison.effect == pytest.approx(math.exp(72.5 / 26) - math.exp(75 / 26))
    assert comparison.low < comparison.effect < comparison.high
    assert weighted_tasks([comparison, replace(comparison, unit="other", task="other")]) == (), (
        "perplexities have no mean"
    )


def test_missing_samples_are_refused_with_the_way_to_get_them(store: Store) -> None:
    record(store, choice(TEAL, keep=None), choice(WINA))
    with pytest.raises(WinaError, match=rf"The run {TEAL.content_hash()[:8]} has no samples of choice .*--log-samples"):
        compared(store)
    (comparison,) = compared(store, allow_unpaired=True)
    assert (comparison.test, comparison.first_only) == (UNPAIRED, None)
    assert comparison.stderr == pytest.approx(0.16 * math.sqrt(2))
    assert comparison.p == pytest.approx(t_p(0.5, comparison.stderr, 19))


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"prompts": "others"}, "were asked different prompts in choice"),
        ({"keep": 8}, r"answered different documents of choice \(10 and 8\)"),
        ({"target": "1"}, r"answered different documents of choice \(10 and 10\)"),
    ],
)
def test_runs_that_answered_something_else_are_refused(store: Store, other: dict[str, object], reason: str) -> None:
    record(store, choice(TEAL, **other), choice(WINA))
    for allow_unpaired in (False, True):
        with pytest.raises(WinaError, match=reason):
            compared(store, allow_unpaired)


def with_metric(of: UnitRecord, **changes: float) -> UnitRecord:
    """The unit with another last metric."""
    *earlier, last = of.metrics
    return of.model_copy(update={"metrics": (*earlier, last.model_copy(update=changes))})


def test_a_value_that_is_no_mean_over_documents_is_not_paired(store: Store) -> None:
    record(store, with_metric(choice(TEAL), value=0.31), choice(WINA))
    with pytest.raises(WinaError, match="acc of choice is not a mean over its documents"):
        compared(store)
    assert compared(store, allow_unpaired=True)[0].test == UNPAIRED


def test_runs_with_nothing_to_compare_are_told(store: Store) -> None:
    record(store, choice(TEAL), text(WINA))
    with pytest.raises(WinaError, match="have no task in common"):
        compared(store)
    record(store, *(with_metric(choice(run, keep=0), stderr=0.0) for run in (TEAL, WINA)))
    with pytest.raises(WinaError, match="Cannot compare choice of the runs"):
        compared(store, allow_unpaired=True)


GROUP = {"teal": {"large": [1, 0, 1, 0, 0, 1], "small": [0, 0]}, "wina": {"large": [1, 1, 1, 0, 0, 1], "small": [1, 1]}}


def group(run: RunSpec, by_size: bool) -> UnitRecord:
    """A group of two tasks of six and two documents, its value weighted by size or not."""
    members = GROUP[run.method.name]
    samples = [
        sample for task, scores in members.items() for sample in documents(task, "acc", ((x, 1.0) for x in scores))
    ]
    values = {task: sum(scores) / len(scores) for task, scores in members.items()}
    weights = {task: len(scores) if by_size else 1 for task, scores in members.items()}
    values["text"] = sum(values[task] * weight for task, weight in weights.items()) / sum(weights.values())
    metrics = (MetricRecord(task=task, metric="acc", value=value, stderr=0.1) for task, value in values.items())
    return unit(run, "text", samples, *metrics)


@pytest.mark.parametrize(("by_size", "effect", "test"), [(True, 3 / 8, MCNEMAR), (False, 7 / 12, FLIPPED)])
def test_a_group_is_paired_by_its_members_whichever_way_it_is_averaged(
    store: Store, by_size: bool, effect: float, test: str
) -> None:
    record(store, group(TEAL, by_size), group(WINA, by_size))
    by_task = {comparison.task: comparison for comparison in compared(store)}
    assert set(by_task) == {"large", "small", "text"}
    assert (by_task["text"].effect, by_task["text"].test, by_task["text"].n) == (pytest.approx(effect), test, 8)
    assert by_task["text"].p == pytest.approx(2 / 2**3)  # three documents, all one way
    assert by_task["text"].low <= 0 < by_task["text"].high
    assert weighted_tasks(compared(store)) == ()  # one task has no mean over tasks


def test_a_group_that_its_documents_do_not_make_up_is_told_apart(store: Store) -> None:
    record(store, with_metric(group(TEAL, True), value=0.111), group(WINA, True))
    tests = {comparison.task: comparison.test for comparison in compared(store)}
    assert tests == {"large": MCNEMAR, "small": MCNEMAR, "text": UNPAIRED}


def test_the_mean_of_a_study_is_the_papers() -> None:
    def one(task: str, effect: float, metric: str = "acc") -> Comparison:
        return Comparison(task, task, metric, 40, 0.5 + effect, 0.5, effect - 0.1, effect + 0.1, 0.05, 0.5, UNPAIRED)

    groups = ("code", "fewshot", "summarization", "multi", "single", "synthetic")
    longbench = [one(f"longbench_{name}", index / 100, "score") for index, name in enumerate(groups)]
    weighted = weighted_tasks(longbench, "longbench", [task.task for task in longbench])
    effect = mean([comparison for comparison, _ in weighted], [weight for _, weight in weighted]).effect
    assert effect == pytest.approx((4 * 1 + 4 * 2 + 4 * 3 + 4 * 4 + 3 * 5) / 2100)
    assert weighted_tasks(longbench[1:], "longbench", [task.task for task in longbench]) == ()  # one is missing
    commonsense = [one(task, 0.01) for task in COMMONSENSE]
    table_6 = [*commonsense, one("mmlu", 0.2), one("gsm8k", 0.3, "exact_match,flexible-extract")]
    weighted = weighted_tasks(table_6, "additional", [comparison.task for comparison in table_6])
    assert weighted == tuple((comparison, 1) for comparison in commonsense)
    stereotypes = [one(f"crows_pairs_english_{name}", 0.1, "pct_stereotype") for name in ("age", "gender")]
    assert weighted_tasks(stereotypes, "crows_pairs", [comparison.task for comparison in stereotypes]) == ()
    assert weighted_tasks(stereotypes) == ()  # best at one half: a mean says nothing


# ---- command line ----------------------------------------------------------------------------------------------


def test_two_runs_are_named_by_how_their_hashes_begin(
    store: Store, compare: Callable[..., list[dict[str, Any]]], wina: Wina
) -> None:
    record(store, choice(TEAL), choice(WINA), text(TEAL), text(WINA))
    lines = compare(WINA.content_hash()[:6], TEAL.content_hash()[:6])
    assert [(line["task"], line["test"]) for line in lines] == [("choice", MCNEMAR), ("text", EXCHANGED)]
    assert lines[0]["difference"] == pytest.approx(0.5)
    assert 'No run begins with "zz"' in wina.fails(1, "compare", "zz", TEAL.content_hash())
    assert "More than one (2) run begins with" in wina.fails(1, "compare", "", TEAL.content_hash())


def test_a_studys_configurations_are_compared_at_equal_sparsity(
    store: Store, compare: Callable[..., list[dict[str, Any]]], wina: Wina
) -> None:
    record(store, choice(TEAL), choice(WINA))
    (line,) = compare("--study", "compared")
    assert [line[name] for name in ("configuration", "baseline", "first target")] == ["WINA", "TEAL", 0.5]
    assert line["difference"] == 0.5
    (line,) = compare("--study", "compared", "--baseline", "WINA")
    assert (line["configuration"], line["difference"]) == ("TEAL", -0.5)
    refused = wina.fails(1, "compare", "--study", "compared", "--baseline", "CATS")
    assert 'has no configuration "CATS"; its configurations are: "TEAL", "WINA"' in refused


@pytest.mark.parametrize("words", [(), ("a",), ("a", "b", "--study", "c"), ("a", "b", "--baseline", "c")])
def test_what_to_compare_must_be_said(words: tuple[str, ...], wina: Wina) -> None:
    refused = wina.fails(1, "compare", *words)
    assert "Name two runs, or a study" in refused or "--baseline names a configuration of a study" in refused
