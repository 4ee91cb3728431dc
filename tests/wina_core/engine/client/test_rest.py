"""What is resumed of jobs whose programs died."""

from tests.wina_core.engine.engine_events import evaluate
from tests.wina_core.engine.stored_job import RUNS, STUDY
from tests.wina_core.samples import unit
from wina_core.engine.client.rest import resumed
from wina_core.jobs import EvaluateJob, Submit
from wina_core.specs import RunSpec
from wina_core.store import Store

FIRST, SECOND = RUNS


def left_behind(store: Store, *jobs: EvaluateJob) -> None:
    """Keep jobs for a program that then dies."""
    with Store(store.url.render_as_string()) as dead:
        dead.save_study(STUDY, RUNS)
        dead.keep_jobs([Submit(job_id=str(place), job=job) for place, job in enumerate(jobs)])


def runs_of(submits: list[Submit]) -> dict[str, list[RunSpec]]:
    return {each.job_id: [run.spec for run in each.job.runs] for each in submits if isinstance(each.job, EvaluateJob)}


def test_what_is_missing_of_a_dead_programs_jobs_is_resumed(store: Store) -> None:
    left_behind(store, evaluate(FIRST), evaluate(FIRST, SECOND))
    for name in FIRST.evaluation.units:
        store.record_unit(unit(FIRST, name))
    assert runs_of(resumed(store)) == {"1": [SECOND]}
    assert store.unfinished_jobs() == []


def test_what_several_jobs_miss_is_left_to_the_first(store: Store) -> None:
    left_behind(store, evaluate(FIRST), evaluate(FIRST, SECOND), evaluate(SECOND))
    assert runs_of(resumed(store)) == {"0": [FIRST], "1": [SECOND]}
    assert store.unfinished_jobs() == []


def test_samples_are_not_left_to_a_job_without_them(store: Store) -> None:
    with_samples = evaluate(FIRST).model_copy(update={"samples": True})
    left_behind(store, evaluate(FIRST), with_samples, with_samples, evaluate(FIRST))
    assert runs_of(resumed(store)) == {"0": [FIRST], "1": [FIRST]}
