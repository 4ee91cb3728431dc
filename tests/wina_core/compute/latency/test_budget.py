"""Repetitions and tokens within a time budget, and the progress of a decoding sweep."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wina_core.compute.latency import budget
from wina_core.compute.latency.budget import (
    PeakMemory,
    fitting_tokens,
    longest_repetition,
    repetitions_left,
)
from wina_core.specs import ModelSource
from wina_core.specs.latency import LEAST_REPETITIONS, LEAST_TOKENS, DecodePoint

MODEL = ModelSource(location="demo")
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


def test_a_repetition_ends_early_soon_after_its_share_of_what_is_left() -> None:
    assert longest_repetition(0, 30.0, point()) == pytest.approx(12.0)
    assert longest_repetition(2, 30.0, point()) == longest_repetition(4, 30.0, point()) == pytest.approx(36.0)
    assert longest_repetition(1, -1.0, point()) == 0.0
    assert longest_repetition(0, float("inf"), point(budget_seconds=None)) == float("inf")


def test_where_the_system_forbids_to_reset_its_count_there_is_no_peak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """As containers with a read-only /proc do."""
    monkeypatch.setattr(budget, "_RESET", tmp_path / "missing" / "clear_refs")
    with PeakMemory(torch.device("cpu")) as peak:
        pass
    assert peak.bytes is None
