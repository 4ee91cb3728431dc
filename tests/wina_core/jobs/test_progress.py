"""The remaining time, and the number of messages about it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wina_core.jobs.progress import INTERVAL_SECONDS, StageEta, Throttle


def test_the_time_left_of_each_stage_follows_from_the_work_done_of_it() -> None:
    eta = StageEta()
    eta.begin("loading")
    assert eta.update(0.0, 0, 20) is None
    assert eta.update(5.0, 10, None) is None
    assert eta.update(5.0, 10, 20) == pytest.approx(5.0)
    eta.begin("rotation")
    assert eta.update(10.0, 0, 4) is None
    assert eta.update(20.0, 1, 4) == pytest.approx(30.0)
    eta.begin("loading")
    assert eta.update(30.0, 30, 20) == 0.0, "beyond the total"
    eta.begin("rotation")
    assert eta.update(30.0, 2, 4) == pytest.approx(20.0), "it is the same stage"
    assert eta.update(31.0, 0, 5) is None, "other work begins"
    assert eta.update(32.0, 1, 5) == pytest.approx(4.0)


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
