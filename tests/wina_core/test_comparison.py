"""Paired comparisons: what the statistics are worth, and what two stored runs must share."""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wina_core import samples
from wina_core.comparison import (
    BOOTSTRAP,
    FLIPPED,
    MCNEMAR,
    PROPAGATED,
    UNPAIRED,
    Comparison,
    aggregate,
    averageable,
    bootstrap,
    compare_runs,
    mean,
    mean_of_study,
)
from wina_core.errors import WinaError
from wina_core.flips import FLIPS, sign_flips
from wina_core.paper import COMMONSENSE
from wina_core.proportions import mcnemar_p, newcombe, wilson
from wina_core.records import MetricRecord, SampleRecord, UnitRecord
from wina_core.run_labels import LabelledRun, RunLabel
from wina_core.specs import DENSE, Arm, EvaluationSpec, MethodSpec, RunSpec, UniformSparsity
from wina_core.store import Store
from wina_core.study_specs import StudySpec

COUNTS = st.integers(0, 30)


# ---- statistics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "other"), [(a, b) for a in range(6) for b in range(6)])
def test_mcnemar_is_the_enumeration_of_all_ways_to_win(one: int, other: int) -> None:
    """Every outcome of the discordant documents is as likely; p is the share of those at least as lopsided."""
    outcomes = list(itertools.product((0, 1), repeat=one + other))
    lopsided = sum(abs(2 * sum(outcome) - len(outcome)) >= abs(one - other) for outcome in outcomes)
    assert mcnemar_p(one, other) == pytest.approx(lopsided / len(outcomes), abs=1e-12)


def test_the_interval_is_newcombes() -> None:
    """The example of the article's table 3: 36, 12, 2 and 0 of 50."""
    assert newcombe(36, 12, 2, 0) == pytest.approx((0.0569, 0.3404), abs=5e-5)


@given(both=COUNTS, one=COUNTS, other=COUNTS, neither=COUNTS)
def test_swapping_the_runs_turns_the_interval_over_and_keeps_p(both: int, one: int, other: int, neither: int) -> None:
    n = both + one + other + neither
    if n == 0:
        return
    low, high = newcombe(both, one, other, neither)
    assert newcombe(both, other, one, neither) == pytest.approx((-high, -low), abs=1e-12)
    assert low <= (one - other) / n <= high
    assert -1 <= low <= high <= 1
    assert mcnemar_p(one, other) == mcnemar_p(other, one)


SCORES = st.lists(st.tuples(*[st.floats(-5, 5)] * 2), min_size=1, max_size=12)


@settings(max_examples=10, deadline=None)
@given(pairs=SCORES)
def test_the_bootstrap_is_the_same_again_and_turns_over_with_the_runs(pairs: list[tuple[float, float]]) -> None:
    first, second = (np.array([(pair[side], 1.0) for pair in pairs]) for side in (0, 1))
    low, high, p, stderr = bootstrap("score", first, second)
    assert bootstrap("score", first, second) == (low, high, p, stderr)
    assert bootstrap("score", second, first) == pytest.approx((-high, -low, p, stderr), abs=1e-12)
    assert low <= high
    assert 0 < p <= 1


def test_the_bootstrap_agrees_with_all_resamples_of_three_documents() -> None:
    first, second = np.array([(0.2, 1.0), (0.9, 1.0), (0.6, 1.0)]), np.array([(0.1, 1.0), (0.3, 1.0), (0.7, 1.0)])
    difference = (first - second)[:, 0]
    every = np.array([difference[list(draw)].mean() for draw in itertools.product(range(3), repeat=3)])
    low, high, p, stderr = bootstrap("score", first, second)
    assert stderr == pytest.approx(every.std(), rel=0.02)
    assert (low, high) == pytest.approx(np.quantile(every, (0.025, 0.975), method="inverted_cdf"), abs=1e-9)
    assert p == pytest.approx(2 * min((every <= 0).mean(), (every >= 0).mean()), rel=0.1)


def test_perplexities_come_from_sums_of_log_likelihoods_and_weights() -> None:
    assert aggregate("word_perplexity", -20.0, 10.0) == pytest.approx(math.exp(2))
    assert aggregate("bits_per_byte", -20.0, 10.0) == pytest.approx(2 / math.log(2))
    assert aggregate("exact_match,flexible-extract", 3.0, 4.0) == 0.75


def test_a_mean_propagates_its_tasks_errors() -> None:
    tasks = [
        Comparison("a", "a", "acc", 100, 0.6, 0.5, 0.04, 0.18, 0.03, 1, MCNEMAR),
        Comparison("b", "b", "acc", 100, 0.8, 0.9, -0.18, -0.04, 0.04, 1, MCNEMAR),
    ]
    equal, weighted = mean(tasks), mean(tasks, [3, 1])
    assert (equal.effect, equal.stderr) == pytest.approx((0.0, 0.025), abs=1e-12)
    assert equal.p == pytest.approx(1.0)
    below = weighted.effect - weighted.low
    assert weighted.p == pytest.approx(math.erfc(weighted.effect / below * 1.959964 / math.sqrt(2)), abs=1e-6)
    assert (weighted.first, weighted.effect) == pytest.approx((0.65, 0.05))
    assert weighted.stderr == pytest.approx(math.hypot(0.0225, 0.01))
    assert (weighted.test, weighted.n) == (PROPAGATED, 200)
    assert (equal.low, equal.high) == pytest.approx((-math.hypot(0.03, 0.04), math.hypot(0.04, 0.03)))
    assert (weighted.low, weighted.high) == pytest.approx(
        (0.05 - math.hypot(0.045, 0.02), 0.05 + math.hypot(0.06, 0.015))
    )


def every_flip(differences: Sequence[float], shares: Sequence[float], effect: float) -> float:
    """The test by going through all ways to flip, after the subtraction of an effect."""
    shifted = [share * (each - effect) for share, each in zip(shares, differences, strict=True)]
    ways = [
        abs(sum(sign * each for sign, each in zip(signs, shifted, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(shifted))
    ]
    return sum(way >= abs(sum(shifted)) - 1e-9 for way in ways) / len(ways)


DIFFERENCES = st.lists(st.tuples(st.integers(-2, 2), st.sampled_from((1.0, 2.0))), min_size=1, max_size=9)


@settings(max_examples=40, deadline=None)
@given(documents=DIFFERENCES)
def test_sign_flips_are_the_enumeration_of_all_and_the_interval_is_what_they_do_not_refuse(
    documents: list[tuple[int, float]],
) -> None:
    differences = [float(each) for each, _ in documents]
    shares = [weight / sum(weight for _, weight in documents) for _, weight in documents]
    p, low, high = sign_flips(np.array(differences) * shares, np.array(shares))
    effect = float(np.dot(differences, shares))
    assert p == pytest.approx(every_flip(differences, shares, 0.0), abs=1e-9)
    assert low <= effect <= high
    if not (low - 1e-6 < 0 < low + 1e-6 or high - 1e-6 < 0 < high + 1e-6):
        assert (p < 0.05 - 1e-9) == (not low <= 0 <= high)
    for end, outwards in ((low, -1), (high, 1)):
        if math.isfinite(end) and abs(end - effect) > 1e-4:
            assert every_flip(differences, shares, end - outwards * 1e-5) > 0.05
            assert every_flip(differences, shares, end + outwards * 1e-5) <= 0.05 + 1e-9


def test_many_documents_are_flipped_by_chance_and_come_near_the_binomial() -> None:
    differences = np.array([1.0] * 60 + [-1.0] * 40 + [0.0] * 300 + [0.5, -0.25] * 100)
    shares = np.full(len(differences), 1 / len(differences))
    p, low, high = sign_flips(differences * shares, shares)
    assert (p, low, high) == sign_flips(differences * shares, shares)
    effect, error = differences.mean(), math.sqrt((differences**2).sum()) / len(differences)
    assert p == pytest.approx(math.erfc(effect / error / math.sqrt(2)), abs=4 / math.sqrt(FLIPS))
    assert (low, high) == pytest.approx((effect - 1.96 * error, effect + 1.96 * error), rel=0.05)


def test_few_documents_that_agree_are_no_more_than_the_sign_test_says() -> None:
    """Five discordant documents of 32, all one way, in eight tasks: as likely as five heads or five tails."""
    tasks = [
        Comparison(
            str(place), str(place), "acc", 4, 0.5 + won / 4, 0.5, *newcombe(2, won, 0, 2 - won), 0.0, 1, MCNEMAR,
            documents=(np.array([won / 4, 0.0, 0.0, 0.0]), np.full(4, 0.25)),
        )
        for place, won in enumerate([1, 1, 1, 1, 1, 0, 0, 0])
    ]  # fmt: skip
    found = mean(tasks)
    assert found.test == FLIPPED
    assert found.effect == pytest.approx(5 / 32)
    assert found.p == pytest.approx(0.0625)
    assert found.low < 0 < found.effect < found.high


def test_documents_that_do_not_differ_leave_the_interval_as_wide_as_the_tasks() -> None:
    same = (np.zeros(10), np.full(10, 0.1))
    found = mean([Comparison("a", "a", "acc", 10, 0.5, 0.5, -0.3, 0.3, 0.0, 1, MCNEMAR, documents=same)])
    assert (found.p, found.low, found.high) == (pytest.approx(1.0), pytest.approx(-0.3), pytest.approx(0.3))


def test_no_errors_are_taken_from_documents_that_all_came_out_alike() -> None:
    assert wilson(0, 20)[1] == pytest.approx(0.161, abs=5e-4)
    alike = Comparison("a", "a", "acc", 4, 1.0, 0.5, -0.1, 0.8, 0.0, 0.5, UNPAIRED)
    found = mean([alike, alike])
    assert found.stderr == 0
    z = (found.effect - found.low) ** -1 * found.effect * 1.959964
    assert found.p == pytest.approx(math.erfc(z / math.sqrt(2)))
    assert (found.p < 0.05) == (found.low > 0)


# ---- stored runs -----------------------------------------------------------------------------------------------

STUDY = StudySpec(
    name="compared",
    models=(samples.MODEL,),
    arms=(
        Arm(name="dense", method=DENSE),
        Arm(name="TEAL", method=MethodSpec(name="teal")),
        Arm(name="WINA", method=MethodSpec(name="wina")),
    ),
    sparsities=(0.5,),
    evaluation=EvaluationSpec(tasks=("choice", "text"), deviation=None),
)
TEAL, WINA = (
    RunSpec(
        model=samples.MODEL,
        method=MethodSpec(name=name),
        plan=UniformSparsity(sparsity=0.5),
        evaluation=STUDY.evaluation,
    )
    for name in ("teal", "wina")
)
RIGHT = {"teal": [1, 1, 0, 0, 1, 0, 0, 0, 0, 0], "wina": [1, 1, 1, 1, 1, 1, 1, 0, 0, 1]}
LIKELIHOODS = {"teal": [-30.0, -20.0, -25.0], "wina": [-28.0, -19.0, -25.5]}
WORDS = [10.0, 7.0, 9.0]


def choice(run: RunSpec, keep: int | None = 10, prompts: str = "same", target: str = "0") -> UnitRecord:
    """The task "choice": accuracies; of `keep` documents the samples are there, of None none."""
    right = RIGHT[run.method.name]
    documents = [
        SampleRecord(task="choice", doc=doc, scores={"acc": (score, 1.0)}, target=target, response="[]")
        for doc, score in enumerate(right)
    ]
    metric = MetricRecord(
        task="choice",
        metric="acc",
        value=sum(right) / 10,
        stderr=0.16,
        n=10,
        higher_is_better=True,
        prompt_hash=prompts,
    )
    return UnitRecord(
        run=run.content_hash(), unit="choice", metrics=(metric,), seconds=1, samples=tuple(documents[: keep or 0])
    )


def text(run: RunSpec) -> UnitRecord:
    """The task "text": perplexities."""
    logs = LIKELIHOODS[run.method.name]
    documents = tuple(
        SampleRecord(task="text", doc=doc, scores={"word_perplexity": pair}, target="", response="[]")
        for doc, pair in enumerate(zip(logs, WORDS, strict=True))
    )
    value = math.exp(-sum(logs) / sum(WORDS))
    metric = MetricRecord(task="text", metric="word_perplexity", value=value, n=3, higher_is_better=False)
    return UnitRecord(run=run.content_hash(), unit="text", metrics=(metric,), seconds=1, samples=documents)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "results.sqlite") as opened:
        named = ((TEAL, "TEAL"), (WINA, "WINA"))
        opened.save_study(
            STUDY, [LabelledRun(run, RunLabel(run.content_hash(), "llama", arm, "uniform")) for run, arm in named]
        )
        yield opened


def record(store: Store, *units: UnitRecord) -> None:
    for unit in units:
        store.record_unit(unit)


def compared(store: Store, allow_unpaired: bool = False) -> Sequence[Comparison]:
    return compare_runs(store, WINA.content_hash(), TEAL.content_hash(), allow_unpaired=allow_unpaired)


def test_accuracies_are_paired_by_document(store: Store) -> None:
    record(store, choice(TEAL), choice(WINA))
    (found,) = compared(store)
    assert (found.first, found.second, found.n, found.test) == (0.8, 0.3, 10, MCNEMAR)
    assert (found.first_only, found.second_only) == (5, 0)
    assert found.p == pytest.approx(2 / 2**5)
    assert (found.low, found.high) == pytest.approx(newcombe(3, 5, 0, 2))
    assert found.stderr == pytest.approx(np.std([0, 0, 1, 1, 0, 1, 1, 0, 0, 1], ddof=1) / math.sqrt(10))


def test_perplexities_are_resampled_by_document(store: Store) -> None:
    record(store, text(TEAL), text(WINA))
    (found,) = compared(store)
    assert found.test == BOOTSTRAP
    assert found.first == pytest.approx(math.exp(72.5 / 26))
    assert found.effect == pytest.approx(math.exp(72.5 / 26) - math.exp(75 / 26))
    assert found.low < found.effect < found.high
    assert averageable([found]) == ()  # a mean of perplexities and accuracies says nothing


def test_missing_samples_are_refused_with_the_way_to_get_them(store: Store) -> None:
    record(store, choice(TEAL, keep=None), choice(WINA))
    with pytest.raises(WinaError, match=rf"The run {TEAL.content_hash()[:8]} has no samples of choice .*--samples"):
        compared(store)
    (found,) = compared(store, allow_unpaired=True)
    assert (found.test, found.first_only) == (UNPAIRED, None)
    assert found.stderr == pytest.approx(0.16 * math.sqrt(2))
    assert found.p == pytest.approx(math.erfc(0.5 / found.stderr / math.sqrt(2)))


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


def test_a_value_that_is_no_mean_over_documents_is_not_paired(store: Store) -> None:
    odd = choice(TEAL)
    odd = odd.model_copy(update={"metrics": (odd.metrics[0].model_copy(update={"value": 0.31}),)})
    record(store, odd, choice(WINA))
    with pytest.raises(WinaError, match="acc of choice is not a mean over its documents"):
        compared(store)
    assert compared(store, allow_unpaired=True)[0].test == UNPAIRED


GROUP = {"teal": {"large": [1, 0, 1, 0, 0, 1], "small": [0, 0]}, "wina": {"large": [1, 1, 1, 0, 0, 1], "small": [1, 1]}}


def group(run: RunSpec, by_size: bool, name: str = "text") -> UnitRecord:
    """A group of two tasks of six and two documents, its value weighted by size or not; `name` is its unit's."""
    members = GROUP[run.method.name]
    documents = tuple(
        SampleRecord(task=task, doc=doc, scores={"acc": (score, 1.0)}, target="0", response="[]")
        for task, scores in members.items()
        for doc, score in enumerate(scores)
    )
    values = {task: sum(scores) / len(scores) for task, scores in members.items()}
    weights = {task: len(scores) if by_size else 1 for task, scores in members.items()}
    values[name] = sum(values[task] * weight for task, weight in weights.items()) / sum(weights.values())
    metrics = tuple(MetricRecord(task=task, metric="acc", value=value, stderr=0.1) for task, value in values.items())
    return UnitRecord(run=run.content_hash(), unit=name, metrics=metrics, seconds=1, samples=documents)


@pytest.mark.parametrize(("by_size", "effect", "test"), [(True, 3 / 8, MCNEMAR), (False, 7 / 12, FLIPPED)])
def test_a_group_is_paired_by_its_members_whichever_way_it_is_averaged(
    store: Store, by_size: bool, effect: float, test: str
) -> None:
    record(store, group(TEAL, by_size), group(WINA, by_size))
    found = {each.task: each for each in compared(store)}
    assert set(found) == {"large", "small", "text"}
    assert (found["text"].effect, found["text"].test, found["text"].n) == (pytest.approx(effect), test, 8)
    assert found["text"].p == pytest.approx(2 / 2**3)  # three documents, all one way
    assert found["text"].low <= 0 < found["text"].high
    assert mean_of_study(compared(store), "", ()) is None  # one task has no mean over tasks


def test_a_group_that_its_documents_do_not_make_up_is_told_apart(store: Store) -> None:
    odd, other = (group(run, True) for run in (TEAL, WINA))
    last = odd.metrics[-1].model_copy(update={"value": 0.111})
    record(store, odd.model_copy(update={"metrics": (*odd.metrics[:-1], last)}), other)
    found = {each.task: each.test for each in compared(store)}
    assert found == {"large": MCNEMAR, "small": MCNEMAR, "text": UNPAIRED}


def test_the_mean_of_a_study_is_the_papers() -> None:
    def one(task: str, effect: float, metric: str = "acc") -> Comparison:
        return Comparison(task, task, metric, 40, 0.5 + effect, 0.5, effect - 0.1, effect + 0.1, 0.05, 0.5, BOOTSTRAP)

    groups = ("code", "fewshot", "summarization", "multi", "single", "synthetic")
    longbench = [one(f"longbench_{name}", place / 100, "score") for place, name in enumerate(groups)]
    found = mean_of_study(longbench, "longbench", [each.task for each in longbench])
    assert found is not None
    assert found.effect == pytest.approx((4 * 1 + 4 * 2 + 4 * 3 + 4 * 4 + 3 * 5) / 2100)
    assert mean_of_study(longbench[1:], "longbench", [each.task for each in longbench]) is None  # one is missing
    commonsense = [one(task, 0.01) for task in COMMONSENSE]
    table_6 = [*commonsense, one("mmlu", 0.2), one("gsm8k", 0.3, "exact_match,flexible-extract")]
    found = mean_of_study(table_6, "additional", [each.task for each in table_6])
    assert found is not None
    assert found.effect == pytest.approx(0.01)
    stereotypes = [one(f"crows_pairs_english_{name}", 0.1, "pct_stereotype") for name in ("age", "gender")]
    assert mean_of_study(stereotypes, "crows_pairs", [each.task for each in stereotypes]) is None
    assert mean_of_study(stereotypes, "", ()) is None  # best at one half: a mean says nothing


def test_runs_without_a_common_task_are_told(store: Store) -> None:
    record(store, choice(TEAL), text(WINA))
    with pytest.raises(WinaError, match="have no task in common"):
        compared(store)


# ---- command line ----------------------------------------------------------------------------------------------


def wina(capsys: pytest.CaptureFixture[str], tmp_path: Path, *words: str) -> list[dict[str, object]]:
    from wina_core.cli import app

    app([*words, "--json", "--database", str(tmp_path / "results.sqlite")], standalone_mode=False)
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_two_runs_are_named_by_how_their_hashes_begin(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(store, choice(TEAL), choice(WINA), text(TEAL), text(WINA))
    lines = wina(capsys, tmp_path, "compare", WINA.content_hash()[:6], TEAL.content_hash()[:6])
    assert [(line["task"], line["test"]) for line in lines] == [("choice", MCNEMAR), ("text", BOOTSTRAP)]
    assert lines[0]["difference"] == pytest.approx(0.5)
    with pytest.raises(WinaError, match='No stored run\'s hash begins with "zz"'):
        wina(capsys, tmp_path, "compare", "zz", TEAL.content_hash())
    with pytest.raises(WinaError, match="The hashes of 2 stored runs begin"):
        wina(capsys, tmp_path, "compare", "", TEAL.content_hash())


def test_a_studys_arms_are_compared_at_equal_sparsity(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(store, choice(TEAL), choice(WINA))
    (line,) = wina(capsys, tmp_path, "compare", "--study", "compared")
    assert (line["arm"], line["baseline"], line["sparsity"], line["difference"]) == ("WINA", "TEAL", 0.5, 0.5)
    (line,) = wina(capsys, tmp_path, "compare", "--study", "compared", "--baseline", "WINA")
    assert (line["arm"], line["difference"]) == ("TEAL", -0.5)
    with pytest.raises(WinaError, match='has no arm "CATS"; its arms are: "TEAL", "WINA"'):
        wina(capsys, tmp_path, "compare", "--study", "compared", "--baseline", "CATS")


@pytest.mark.parametrize("words", [(), ("a",), ("a", "b", "--study", "c"), ("a", "b", "--baseline", "c")])
def test_what_to_compare_must_be_said(words: tuple[str, ...]) -> None:
    from wina_core.cli import app

    with pytest.raises(WinaError, match=r"Name two runs, or a study|--baseline names an arm of a study"):
        app(["compare", *words], standalone_mode=False)
