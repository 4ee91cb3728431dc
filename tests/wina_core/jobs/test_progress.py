"""The remaining time, and the number of messages about it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wina_core.jobs.progress import INTERVAL_SECONDS, Eta, Stage, StageEta, Throttle


def estimates(pairs: list[tuple[float, float]], total: float | None) -> list[float | None]:
    """Return the estimates at the start and after each (seconds, work)."""
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
    done = 0.0
    for step, estimate in zip(seconds, estimates([(step, rate * step) for step in seconds], total)[1:], strict=True):
        done += rate * step
        assert estimate == pytest.approx((total - done) / rate, rel=1e-6, abs=1e-6)


@given(st.lists(st.tuples(st.floats(0.001, 100.0), st.floats(0.001, 100.0)), min_size=1, max_size=30))
def test_the_rate_stays_between_the_slowest_and_the_fastest_step(pairs: list[tuple[float, float]]) -> None:
    rates = [work / seconds for seconds, work in pairs]
    left = 1000.0
    estimate = estimates(pairs, sum(work for _, work in pairs) + left)[-1]
    assert estimate is not None
    assert left / max(rates) * (1 - 1e-6) <= estimate <= left / min(rates) * (1 + 1e-6)
    assert all(value is None or value >= 0.0 for value in estimates(pairs, 1.0)), "beyond the total"


def test_a_change_of_pace_is_followed_and_a_stall_lengthens_the_estimate() -> None:
    fast, slow, stall = [(1.0, 10.0)] * 60, [(1.0, 1.0)] * 120, [(1.0, 0.0)] * 2
    total = 10.0 * 60 + 120 + 100
    assert estimates(fast, total)[-1] == pytest.approx(22)
    assert estimates(fast + slow, total)[-1] == pytest.approx(100, rel=0.25)
    before, *stalled = estimates(fast + stall, total)[-3:]
    assert before is not None
    assert [before, *stalled] == sorted(filter(None, [before, *stalled]))
    assert stalled[-1] != before


def test_other_work_starts_the_estimate_afresh() -> None:
    eta = Eta()
    for now in range(10):
        eta.update(now, now * 100, 10_000)
    assert eta.update(10, 0, 5) is None
    assert eta.update(11, 1, 5) == pytest.approx(4)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=50))
def test_messages_pass_no_more_often_than_the_interval_except_the_last(gaps: list[float]) -> None:
    throttle, now, passed = Throttle(), 0.0, []
    for gap in gaps:
        now += gap
        if throttle.passes(now, 1, 2):
            passed.append(now)
    assert passed
    assert all(later - earlier >= INTERVAL_SECONDS for earlier, later in itertools.pairwise(passed))
    assert throttle.passes(now, 2, 2)


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


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        (("loading", "refinement", "rotation", "calibration", ""), [150.0, 50.0, 50.0, 10.0, 10.0]),
        (("loading", ""), [150.0, 10.0]),  # the products were there already
    ],
)
def test_later_products_take_their_stored_seconds_until_they_begin(
    stages: tuple[Stage, ...], expected: list[float]
) -> None:
    eta, found = StageEta({"rotation": 100.0, "calibration": 40.0}), []
    for number, stage in enumerate(stages):
        eta.begin(stage)
        eta.update(20.0 * number, 0, 2)
        found.append(eta.update(20.0 * number + 10.0, 1, 2))
    assert found == pytest.approx(expected)
