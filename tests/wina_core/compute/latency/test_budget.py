"""Repetitions and tokens within a time budget, and the remaining time of a whole decoding sweep."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wina_core.compute import pausable_clock
from wina_core.compute.latency import budget
from wina_core.compute.latency.budget import (
    Finished,
    PeakMemory,
    SweepProgress,
    expected_rest,
    expected_seconds,
    fitting_tokens,
    longest_repetition,
    repetitions_left,
)
from wina_core.compute.reporter import NullReporter
from wina_core.jobs import Event, Progress
from wina_core.specs import ModelSource
from wina_core.specs.latency import LEAST_REPETITIONS, LEAST_TOKENS, DecodePoint, DecodeSpec

MODEL = ModelSource(location="demo")
SPEC = DecodeSpec(model=MODEL, sparsities=(0.0, 0.5), budget_seconds=45.0)
seconds = st.floats(1e-3, 100.0)


def point(**settings: object) -> DecodePoint:
    return DecodePoint.model_validate({"model": MODEL, "sparsity": 0.5, "budget_seconds": 45.0, **settings})


@pytest.mark.parametrize(
    ("left", "tokens"),
    [(300.0, 64), (3 * (1.0 + 63 * 0.1), 64), (3 * (1.0 + 20 * 0.1) + 1e-6, 21), (3.0, 8), (-5.0, 8)],
)
def test_tokens_are_as_many_as_three_repetitions_allow(left: float, tokens: int) -> None:
    assert fitting_tokens(left, prompt=1.0, token=0.1, point=point()) == tokens
    assert fitting_tokens(left, prompt=1.0, token=0.1, point=point(new_tokens=4)) == 4


@pytest.mark.parametrize(
    ("done", "left", "coming"), [(0, 100.0, 5), (0, 40.0, 4), (0, 1.0, 3), (2, -3.0, 1), (3, 9.9, 0), (4, 99.0, 1)]
)
def test_repetitions_go_on_while_one_more_fits_and_never_end_before_three(done: int, left: float, coming: int) -> None:
    assert repetitions_left(done, 10.0, left, point()) == coming
    assert repetitions_left(done, 10.0, float("inf"), point()) == 5 - done
    assert repetitions_left(0, 10.0, left, point(repetitions=1)) == 1


@given(seconds, seconds, seconds, st.integers(1, 20), st.integers(2, 100))
def test_a_point_takes_no_longer_than_its_budget_or_its_least_work(
    budget: float, prompt: float, token: float, repetitions: int, new_tokens: int
) -> None:
    decode_point = point(repetitions=repetitions, new_tokens=new_tokens)
    tokens = fitting_tokens(budget, prompt, token, decode_point)
    duration = prompt + (tokens - 1) * token
    timed = repetitions_left(0, duration, budget, decode_point) * duration
    least = min(repetitions, LEAST_REPETITIONS) * (prompt + (min(new_tokens, LEAST_TOKENS) - 1) * token)
    assert timed <= max(budget, least) * (1 + 1e-9)


def test_a_point_is_expected_to_take_its_budget_until_others_were_faster() -> None:
    assert expected_seconds(point(), []) == 45.0
    assert expected_seconds(point(budget_seconds=None), []) is None
    fast = Finished(point(), 4.0, 2.0)
    assert expected_seconds(point(), [fast]) == 4.0
    assert 4.0 < (expected_seconds(point(batch=8), [fast]) or 0.0) < 8.0
    assert expected_seconds(point(batch=8), [Finished(point(), 44.0, 20.0)]) == 45.0
    assert expected_seconds(point(batch=8), [Finished(point(), 80.0, 40.0)]) == 80.0, "the least work exceeds it"


def test_a_repetition_ends_early_soon_after_its_share_of_what_is_left() -> None:
    assert longest_repetition(0, 30.0, point()) == pytest.approx(12.0)
    assert longest_repetition(2, 30.0, point()) == longest_repetition(4, 30.0, point()) == pytest.approx(36.0)
    assert longest_repetition(1, -1.0, point()) == 0.0
    assert longest_repetition(0, float("inf"), point(budget_seconds=None)) == float("inf")


def test_the_gated_model_is_expected_within_its_share_of_the_budget_or_as_long_as_the_last_one() -> None:
    assert expected_rest(10.0, point(), []) == pytest.approx(12.0)
    assert expected_rest(60.0, point(), []) == pytest.approx(0.55 * 45.0)
    assert expected_rest(20.0, point(), [Finished(point(), 50.0, 20.0)]) == pytest.approx(30.0)
    assert expected_rest(60.0, point(), [Finished(point(), 50.0, 20.0)]) == pytest.approx(30.0)
    assert expected_rest(60.0, point(budget_seconds=None), [Finished(point(), 50.0, 20.0)]) == pytest.approx(90.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(pausable_clock, "now", lambda: now[0])
    return now


def swept(
    points: tuple[DecodePoint, ...], clock: list[float], dense: float, gated: float
) -> Iterator[tuple[float, float]]:
    """Yield (fraction of the sweep's time, estimate over the time that is left) for points of three repetitions."""
    events: list[Event] = []
    progress = SweepProgress(NullReporter(), events.append, "1", points)
    times = []
    for _ in points:
        for model, duration, warm_up in (("dense", dense, 0.1), ("gated", gated, 0.4)):
            progress.begin(model)  # type: ignore[arg-type]  # one of both
            times.append(clock[0])
            clock[0] += warm_up * duration
            for repetition in range(4):
                progress.expect((3 - repetition) / 3 * (1 - warm_up) * duration, f"repetition {repetition + 1} of 3")
                times.append(clock[0])
                clock[0] += 0.0 if repetition == 3 else (1 - warm_up) * duration / 3
        progress.finish()
    whole = clock[0]
    for at, event in zip(times, events, strict=False):
        assert isinstance(event, Progress)
        if event.eta_seconds is not None and at < whole:
            yield at / whole, event.eta_seconds / (whole - at)


@pytest.mark.parametrize(("dense", "gated"), [(20.0, 25.0), (2.0, 1.5), (35.0, 45.0), (20.0, 12.0)])
def test_the_estimate_is_at_most_a_quarter_off_at_half_way(clock: list[float], dense: float, gated: float) -> None:
    ratios = list(swept(SPEC.points(), clock, dense, gated))
    late = [ratio for fraction, ratio in ratios if fraction >= 0.45]
    assert len(late) > 5
    assert max(late) <= 1.25
    assert min(late) >= 0.75


def test_within_its_budget_the_estimate_is_of_the_whole_sweep_from_the_first_report_on(clock: list[float]) -> None:
    fraction, ratio = next(swept(SPEC.points(), clock, 20.0, 25.0))
    assert (fraction, ratio) == (0.0, pytest.approx(1.0))


def test_progress_never_runs_backwards(clock: list[float]) -> None:
    events: list[Event] = []
    progress = SweepProgress(NullReporter(), events.append, "1", SPEC.points())
    progress.begin("dense")
    for left in (10.0, 50.0, 2.0, 1.0):
        clock[0] += 1.0
        progress.expect(left, "")
    done = [event.done for event in events if isinstance(event, Progress)]
    assert all(before <= after < 1.0 for before, after in pairwise(done))


def test_where_the_system_forbids_to_reset_its_count_there_is_no_peak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """As containers with a read-only /proc do."""
    monkeypatch.setattr(budget, "_RESET", tmp_path / "missing" / "clear_refs")
    with PeakMemory(torch.device("cpu")) as peak:
        pass
    assert peak.bytes is None
