"""How the remaining time is estimated, and how often progress is sent."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wina_core.jobs.progress import INTERVAL_SECONDS, Eta, Stage, StageEta, Throttle

steps = st.lists(st.tuples(st.floats(0.001, 100.0), st.floats(0.001, 100.0)), min_size=1, max_size=30)


def estimates(pairs: list[tuple[float, float]], total: float | None) -> list[float | None]:
    eta, now, done = Eta(), 0.0, 0.0
    found = [eta.update(now, done, total)]
    for seconds, work in pairs:
        now, done = now + seconds, done + work
        found.append(eta.update(now, done, total))
    return found


def test_nothing_is_known_before_the_first_step_or_without_a_total() -> None:
    assert estimates([(1.0, 1.0)], total=None) == [None, None]
    assert estimates([(1.0, 1.0)], total=10.0)[0] is None


@given(st.lists(st.floats(0.001, 50.0), min_size=1, max_size=30), st.floats(0.01, 100.0), st.floats(0.0, 1e4))
def test_steady_work_is_estimated_exactly_from_the_first_step_on(
    seconds: list[float], rate: float, beyond: float
) -> None:
    total = rate * sum(seconds) + beyond
    found = estimates([(step, rate * step) for step in seconds], total)
    done = 0.0
    for step, estimate in zip(seconds, found[1:], strict=True):
        done += rate * step
        assert estimate == pytest.approx((total - done) / rate, rel=1e-6, abs=1e-6)


@given(steps)
def test_the_rate_stays_between_the_slowest_and_the_fastest_step(pairs: list[tuple[float, float]]) -> None:
    rates = [work / seconds for seconds, work in pairs]
    left = 1000.0
    estimate = estimates(pairs, sum(work for _, work in pairs) + left)[-1]
    assert estimate is not None
    assert left / max(rates) * (1 - 1e-6) <= estimate <= left / min(rates) * (1 + 1e-6)


@given(steps, st.floats(0.0, 100.0))
def test_estimates_are_finite_and_never_negative(pairs: list[tuple[float, float]], total: float) -> None:
    assert all(value is None or (value >= 0.0 and math.isfinite(value)) for value in estimates(pairs, total))


def test_a_change_of_pace_is_followed() -> None:
    fast, slow = [(1.0, 10.0)] * 60, [(1.0, 1.0)] * 120
    total = 10.0 * 60 + 120 + 100
    estimate = estimates(fast + slow, total)[-1]
    assert estimate == pytest.approx(100, rel=0.25)
    assert estimates(fast, total)[-1] == pytest.approx(22)


def test_a_stall_lengthens_the_estimate() -> None:
    eta = Eta()
    values = [eta.update(now, done, 10) for now, done in ((0, 0), (1, 5), (2, 5), (3, 5))]
    assert values[1:] == sorted(value for value in values if value is not None)
    assert values[-1] != values[1]


def test_other_work_starts_the_estimate_afresh() -> None:
    eta = Eta()
    for now in range(10):
        eta.update(now, now * 100, 10_000)
    assert eta.update(10, 0, 5) is None
    assert eta.update(11, 1, 5) == pytest.approx(4)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=50))
def test_messages_pass_no_more_often_than_the_interval(gaps: list[float]) -> None:
    throttle, now, passed = Throttle(), 0.0, []
    for gap in gaps:
        now += gap
        if throttle.passes(now, 1, 2):
            passed.append(now)
    assert passed
    assert all(later - earlier >= INTERVAL_SECONDS for earlier, later in itertools.pairwise(passed))


def test_the_last_message_always_passes() -> None:
    throttle = Throttle()
    assert throttle.passes(0.0, 0, 10)
    assert not throttle.passes(0.01, 9, 10)
    assert throttle.passes(0.02, 10, 10)


def test_each_stage_is_estimated_by_its_own_pace() -> None:
    eta = StageEta()
    eta.begin("loading")
    assert eta.update(0.0, 0, 20) is None
    assert eta.update(5.0, 10, 20) == pytest.approx(5.0)
    eta.begin("rotation")
    assert eta.update(10.0, 0, 4) is None
    assert eta.update(20.0, 1, 4) == pytest.approx(30.0)
    eta.begin("rotation")
    assert eta.update(30.0, 2, 4) == pytest.approx(20.0), "it is the same stage"


def test_later_products_take_their_stored_seconds_until_they_begin() -> None:
    eta, found = StageEta({"rotation": 100.0, "calibration": 40.0}), []
    stages: tuple[Stage, ...] = ("loading", "refinement", "rotation", "calibration", "")
    for number, stage in enumerate(stages):
        eta.begin(stage)
        eta.update(20.0 * number, 0, 2)
        found.append(eta.update(20.0 * number + 10.0, 1, 2))
    assert found == pytest.approx([150.0, 50.0, 50.0, 10.0, 10.0])


def test_products_that_were_there_already_are_not_waited_for() -> None:
    eta = StageEta({"rotation": 100.0})
    eta.begin("loading")
    eta.begin("")
    eta.update(0.0, 0, 2)
    assert eta.update(10.0, 1, 2) == pytest.approx(10.0)
