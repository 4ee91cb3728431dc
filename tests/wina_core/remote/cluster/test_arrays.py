"""Array jobs of a database: submitted, imported by any later program, queued again where they died, cancelled."""

from pathlib import Path

from tests.wina_core.remote.cluster.array import ELEMENTS, SPECS, STUDY, Queue, element, result, whole
from wina_core.jobs import RunStarted
from wina_core.remote.cluster import arrays
from wina_core.remote.cluster.kept import KeptArray, KeptArrays
from wina_core.remote.cluster.requests import RemoveArray, RequeueElements
from wina_core.remote.cluster.slurm.settings import SlurmSettings
from wina_core.store import MetricFilter, Store


def submitted(store: Store, queue: Queue) -> KeptArray:
    store.save_study(STUDY, SPECS)
    return arrays.submit(ELEMENTS, "queued", "local", SlurmSettings(), store, queue.ask)


def test_elements_have_runs_of_one_model_at_most_so_many() -> None:
    assert [len(each.runs) for each in arrays.split_job(element(*SPECS), 3)] == [3, 1]


def test_a_later_program_imports_what_has_come(tmp_path: Path) -> None:
    queue = Queue()
    with Store(tmp_path / "results.sqlite") as store:
        submitted(store, queue)
    queue.write(0, *whole(ELEMENTS[0]))
    with Store(tmp_path / "results.sqlite") as store:
        assert store.run_status(SPECS[3].content_hash()) == "queued"  # in the queue, although its program ended
        (array,) = KeptArrays(store.url)
        arrays.update(array, store, queue.ask)
        assert len(store.metric_rows(MetricFilter())) == 2
    queue.write(1, *whole(ELEMENTS[1]))
    with Store(tmp_path / "results.sqlite") as store:
        update = arrays.update(array, store, queue.ask)
        assert update is not None
        assert update.progress.ended
        assert len(store.metric_rows(MetricFilter())) == 4
        assert not list(KeptArrays(store.url))
    assert queue.asked(RemoveArray) == 1


def test_an_element_that_died_is_queued_again_and_in_the_end_given_up(store: Store) -> None:
    queue = Queue()
    array = submitted(store, queue)
    queue.write(0, RunStarted(job_id="x", run=SPECS[0].content_hash()))
    queue.write(1, *whole(ELEMENTS[1]))
    for _ in range(arrays.MOST_REQUEUES + 1):
        queue.states[0] = "failed"
        update = arrays.update(array, store, queue.ask)
    assert queue.asked(RequeueElements) == arrays.MOST_REQUEUES
    assert update is not None
    assert "Element 0 failed 4 times" in update.progress.errors[0]
    assert [store.run_status(each.content_hash()) for each in SPECS] == ["failed", "failed", "done", "done"]


def test_an_element_that_advances_may_die_more_often(store: Store) -> None:
    queue = Queue()
    array = submitted(store, queue)
    for place in range(2 * arrays.MOST_REQUEUES):
        queue.states[0] = "failed"
        queue.write(0, result(SPECS[place % 2]))
        update = arrays.update(array, store, queue.ask)
    assert update is not None
    assert not update.progress.errors


def test_cancelling_keeps_what_was_written(store: Store) -> None:
    queue = Queue()
    array = submitted(store, queue)
    queue.write(0, result(SPECS[0]))
    arrays.cancel(array, store, queue.ask)
    assert [store.run_status(each.content_hash()) for each in SPECS] == ["done", *["cancelled"] * 3]
    assert not list(KeptArrays(store.url))


def test_results_of_one_element_that_are_refused_leave_the_others(store: Store) -> None:
    queue = Queue()
    array = submitted(store, queue)
    queue.write(0, result(SPECS[3]))
    queue.write(1, *whole(ELEMENTS[1]))
    update = arrays.update(array, store, queue.ask)
    assert update is not None
    assert update.progress.errors == ["The results of element 0 are refused: one of them was not asked of it."]
    assert [store.run_status(each.content_hash()) for each in SPECS] == ["failed", "failed", "done", "done"]


def test_an_array_that_another_program_imports_is_left_to_it(store: Store) -> None:
    queue = Queue()
    array = submitted(store, queue)
    with KeptArrays(store.url).held(array):
        assert arrays.update(array, store, queue.ask) is None
