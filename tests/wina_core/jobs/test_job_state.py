"""The state of a job after any events about it."""

from hypothesis import given
from hypothesis import strategies as st

from wina_core.jobs import Done, Event, Failed, Held, Progress, RunFailed, RunFinished, RunStarted, Started
from wina_core.jobs.job_state import ENDED, JobState

JOB = "job"
EVENTS: list[Event] = [
    Started(job_id=JOB),
    Held(job_id=JOB, held=True),
    Held(job_id=JOB, held=True, released=True),
    Held(job_id=JOB, held=False),
    Progress(job_id=JOB, done=1, total=4, unit="layers", eta_seconds=3.0),
    RunStarted(job_id=JOB, run="a"),
    RunFinished(job_id=JOB, run="a"),
    RunFailed(job_id=JOB, run="a", error="The text is too short."),
]
ENDS: list[Event] = [Done(job_id=JOB), Done(job_id=JOB, cancelled=True), Failed(job_id=JOB, error="The engine died.")]


@given(st.lists(st.sampled_from(EVENTS + ENDS)))
def test_nothing_changes_a_job_that_has_ended(events: list[Event]) -> None:
    state = JobState()
    for second, event in enumerate(events):
        before, state = state, state.apply(event, float(second))
        assert state == before or before.active
        assert state.active == (state.phase not in ENDED)
        assert not (state.waiting and state.begun)


@given(st.lists(st.sampled_from(EVENTS)))
def test_its_clock_runs_with_the_time_and_stands_still_while_it_is_held(events: list[Event]) -> None:
    state = JobState()
    for second, event in enumerate(events):
        state, held = state.apply(event, float(second)), state.held_since is not None
        elapsed = state.clock(second + 1.0) - state.clock(float(second))
        assert elapsed == (state.held_since is None)
        assert held or state.held_since in (None, float(second))
        assert 0.0 <= state.seconds_at(second + 1.0) <= second + 1.0


def test_it_takes_the_time_since_it_last_began_without_its_pauses() -> None:
    state = JobState()
    for second, event in (
        (-30.0, Held(job_id=JOB, held=True)),
        (-20.0, Held(job_id=JOB, held=False)),
        (0.0, Started(job_id=JOB)),
        (10.0, Held(job_id=JOB, held=True)),
        (20.0, Held(job_id=JOB, held=True, released=True)),  # its engine works for another job
        (50.0, Held(job_id=JOB, held=False)),
        (60.0, Started(job_id=JOB)),
        (65.0, Held(job_id=JOB, held=True)),
        (70.0, Held(job_id=JOB, held=False)),
        (80.0, Done(job_id=JOB)),
    ):
        state = state.apply(event, second)
    assert (state.seconds_at(100.0), state.phase) == (15.0, "done")


def test_a_request_shows_until_the_job_confirms_it_and_a_cancelled_job_is_not_paused() -> None:
    running = JobState().apply(Started(job_id=JOB), 0.0)
    assert running.pausing().apply(Held(job_id=JOB, held=True), 1.0).phase == "paused"
    assert running.pausing().apply(Held(job_id=JOB, held=False), 1.0) == running
    assert running.cancelling().pausing().phase == "cancelling"
    assert running.cancelling().apply(Held(job_id=JOB, held=True), 1.0).phase == "cancelling"
    ended = running.apply(Done(job_id=JOB), 1.0)
    assert ended.cancelling().pausing() == ended


def test_a_job_has_failed_if_one_of_its_runs_has_until_nothing_is_missing() -> None:
    state = JobState()
    for event in (EVENTS[0], *EVENTS[-3:], Done(job_id=JOB)):
        state = state.apply(event, 0.0)
    assert (state.phase, state.error, list(state.failures)) == ("failed", "The text is too short.", ["a"])
    assert state.reached_runs
    assert (state.completed().phase, state.completed().error) == ("done", "")
