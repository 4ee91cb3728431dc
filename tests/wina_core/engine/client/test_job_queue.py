"""The order of the queue: by priority, then as jobs came or were moved."""

import pytest

from tests.wina_core.engine.engine_events import DEMO
from wina_core.engine.client.job_queue import JobQueue, QueuedJob
from wina_core.jobs import InspectJob, Priority, Queued
from wina_core.jobs.job_state import JobState

JOB = InspectJob(model=DEMO)


def queued(job_id: str, priority: Priority) -> QueuedJob:
    return QueuedJob(job_id, JOB, state=JobState(priority=priority))


def queue(*jobs_and_priorities: str) -> tuple[JobQueue, dict[str, QueuedJob]]:
    """Jobs named by letters, `"a"` of normal priority and `"b:low"` of another; none has begun."""
    jobs, named = JobQueue(), {}
    for text in jobs_and_priorities:
        job_id, _, priority = text.partition(":")
        named[job_id] = queued(job_id, priority or "normal")  # type: ignore[arg-type]  # one of Priority
        jobs.add(named[job_id])
    return jobs, named


def order(jobs: JobQueue) -> str:
    return "".join(job.id for job in jobs)


def test_jobs_begin_by_priority_and_then_as_they_came() -> None:
    jobs, _ = queue("a:low", "b", "c:first", "d", "e:high", "f:first")
    assert order(jobs) == "cfebda"


def test_an_urgent_job_goes_ahead_of_the_rest_of_one_that_has_begun() -> None:
    jobs, named = queue("a", "b:low")
    named["a"].has_begun = True
    assert jobs.add(queued("c", "first")) == Queued(job_id="c", priority="first", before="a")
    assert order(jobs) == "cab"


@pytest.mark.parametrize(
    ("before", "result", "priority"),
    [("b", "acbd", "normal"), (None, "abdc", "low"), ("a", "cabd", "normal"), ("gone", "cabd", "normal")],
)
def test_a_job_is_moved_and_takes_the_priority_of_its_place(before: str | None, result: str, priority: str) -> None:
    jobs, named = queue("a", "b", "c", "d:low")
    jobs.move(named["c"], before)
    assert (order(jobs), named["c"].state.priority) == (result, priority)


def test_another_priority_places_a_job_behind_those_that_have_it() -> None:
    jobs, named = queue("a:high", "b", "c")
    assert jobs.prioritize(named["c"], "high") == Queued(job_id="c", priority="high", before="b")
    assert order(jobs) == "acb"
