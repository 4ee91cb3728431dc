"""The bookkeeping of jobs: their states, their order, and what is said of them."""

import pytest
from wina_app.jobs.job_list import MAX_ENDED_JOBS, JobList
from wina_app.jobs.texts import engines_text, page_text, progress_text, queue_text, remark

from tests.wina_app.stored_runs import SOURCE
from wina_core.jobs import (
    Assigned,
    Done,
    EvaluateJob,
    Failed,
    Held,
    InspectJob,
    Partial,
    Progress,
    Queued,
    RotateJob,
    RunFinished,
    Started,
)
from wina_core.records import UnitRecord
from wina_core.specs import RotationSpec

JOB, LOAD = RotateJob(model=SOURCE, rotation=RotationSpec()), InspectJob(model=SOURCE)


def started(jobs: JobList, job_id: str = "1") -> None:
    jobs.add(job_id, f"Job {job_id}", JOB)
    jobs.apply(Started(job_id=job_id))


def test_a_job_that_is_cancelled_shows_no_time_left():
    jobs = JobList()
    started(jobs)
    jobs.expect("1", 600.0)
    assert "10:00" in progress_text(jobs["1"])
    assert "10:00" in queue_text(jobs)
    jobs.cancelling("1")
    assert jobs["1"].remaining_seconds is None
    assert "10:00" not in progress_text(jobs["1"])
    assert "left" not in queue_text(jobs)


# ---- the order ---------------------------------------------------------------------------------------------------


def queue(ids: str) -> JobList:
    """Jobs named by letters, none of which has begun."""
    jobs = JobList()
    for job_id in ids:
        jobs.add(job_id, f"Job {job_id}", JOB)
    return jobs


def order(jobs: JobList) -> str:
    return "".join(entry.id for entry in jobs.ordered)


@pytest.mark.parametrize(("before", "result"), [("a", "cabd"), (None, "abdc"), ("gone", "abdc")])
def test_a_job_is_listed_where_the_queue_places_it(before, result):
    jobs = queue("abcd")
    jobs.apply(Queued(job_id="c", priority="high", before=before))
    assert (order(jobs), jobs["c"].priority) == (result, "high")
    assert "priority: high" in remark(jobs["c"])


def test_what_runs_is_at_the_top_and_what_ended_below(monkeypatch):
    now = iter(range(1000, 2000))
    monkeypatch.setattr("wina_app.jobs.clock.now", lambda: float(next(now)))
    jobs = queue("1234")
    jobs.apply(Started(job_id="1"))
    jobs.apply(Done(job_id="3", cancelled=True))
    jobs.apply(Done(job_id="1"))
    jobs.apply(Started(job_id="2"))
    jobs.add("5", "Job 5", JOB)
    assert order(jobs) == "24513"


def test_a_job_is_done_again_under_its_id_and_queued_like_a_new_one():
    jobs = queue("ab")
    jobs.apply(Started(job_id="a"))
    jobs.apply(Failed(job_id="a", error="The engine was killed.", detail="last words"))
    ends = []
    jobs.ended.connect(ends.append)
    jobs.requeue("a", JOB)
    assert (jobs["a"].phase, jobs["a"].error, jobs["a"].started, order(jobs)) == ("queued", "", None, "ba")
    jobs.apply(Started(job_id="a"))
    jobs.apply(Done(job_id="a"))
    assert (jobs["a"].phase, ends) == ("done", ["a"])


# ---- what is said ------------------------------------------------------------------------------------------------


def test_a_paused_job_is_counted_apart_and_its_time_is_not_waited_for():
    jobs = queue("ab")
    jobs.expect("a", 60.0)
    jobs.expect("b", 30.0)
    jobs.apply(Started(job_id="a"))
    jobs.apply(Held(job_id="a", held=True))
    assert queue_text(jobs) == "1 paused  ·  1 waiting  ·  about 30 s left"
    assert page_text(jobs["a"]).startswith("Paused; other jobs continue")
    jobs.apply(Held(job_id="a", held=False))
    assert queue_text(jobs).startswith("1 running  ·  1 waiting")


def test_engines_share_the_time_left(monkeypatch):
    monkeypatch.setattr("wina_app.jobs.clock.now", lambda: 1000.0)
    jobs = queue("abc")
    for engine, job_id, seconds in ((1, "a", 90.0), (2, "b", 60.0)):
        jobs.apply(Assigned(engine=engine, job=job_id))
        jobs.apply(Started(job_id=job_id))
        jobs.apply(Progress(job_id=job_id, done=1, total=4, unit="layers", eta_seconds=seconds))
    jobs.expect("c", 60.0)
    assert queue_text(jobs) == "2 running  ·  1 waiting  ·  about 1:45 min left"


def test_a_job_that_memory_keeps_waiting_says_so_until_it_begins():
    jobs = queue("a")
    reason = "waits for the end of the current measurement"
    jobs.apply(Queued(job_id="a", priority="first", reason=reason))
    assert remark(jobs["a"]).startswith(reason)
    assert page_text(jobs["a"]) == "Waits for the end of the current measurement"
    jobs.apply(Started(job_id="a"))
    assert remark(jobs["a"]) == page_text(jobs["a"]) == ""


def test_interactive_jobs_do_not_push_a_batch_job_away():
    jobs = JobList()
    for job_id, job in (("load", LOAD), ("batch", JOB), ("failed load", LOAD), ("late load", LOAD)):
        jobs.add(job_id, job_id, job)
        jobs.apply(Started(job_id=job_id))
    assert jobs.ordered[0].id == "batch"
    for job_id in ("load", "batch", "late load"):
        jobs.apply(Done(job_id=job_id))
    jobs.apply(Failed(job_id="failed load", error="The engine was killed."))
    assert {entry.id for entry in jobs.ordered[:2]} == {"batch", "failed load"}


def test_the_whole_queue_is_summed_up_and_says_when_something_is_unknown():
    jobs = queue("ab")
    assert queue_text(jobs) == "2 waiting"
    jobs.expect("a", 60.0)
    assert queue_text(jobs) == "2 waiting  ·  at least 1:00 min left"
    jobs.expect("b", 30.0)
    assert queue_text(jobs) == "2 waiting  ·  about 1:30 min left"
    assert progress_text(jobs["b"]) == "about 30 s"
    jobs.apply(Done(job_id="a"))
    jobs.apply(Done(job_id="b"))
    assert queue_text(jobs) == ""


def test_each_of_several_engines_shows_what_it_does():
    jobs = queue("a")
    jobs.apply(Assigned(engine=1, hardware="H100"))
    jobs.apply(Started(job_id="a"))
    jobs.apply(Assigned(engine=2, hardware="H200", job="a"))
    assert engines_text(jobs) == "Engine 1 (H100): idle\nEngine 2 (H200): Job a"
    assert remark(jobs["a"]) == "engine 2"
    jobs.apply(Assigned(engine=2, hardware="H200"))
    assert remark(jobs["a"]) == ""


def test_what_came_of_a_job_is_one_line():
    jobs = JobList()
    started(jobs, "2")
    jobs.apply(Failed(job_id="2", error="The task is unknown."))
    assert jobs["2"].summary.startswith("The task is unknown.")
    jobs.add("3", "Evaluate", EvaluateJob(runs=()))
    jobs.apply(Started(job_id="3"))
    jobs.apply(Partial(job_id="3", unit=UnitRecord(run="a", unit="t", metrics=(), seconds=1.0)))
    jobs.apply(RunFinished(job_id="3", run="a"))
    jobs.apply(Done(job_id="3", cancelled=True))
    assert jobs["3"].summary.startswith("Cancelled  ·  1 run done  ·  1 result stored")


def test_the_oldest_ended_jobs_are_forgotten():
    jobs, removed = JobList(), []
    jobs.removed.connect(removed.append)
    for number in range(MAX_ENDED_JOBS + 3):
        jobs.add(f"{number}", "Load", InspectJob(model=SOURCE))
        jobs.apply(Started(job_id=f"{number}"))
        if number:
            jobs.apply(Done(job_id=f"{number}"))
    assert removed == ["1", "2"]
    assert jobs["0"].active
    assert len(list(jobs)) == MAX_ENDED_JOBS + 1
