"""Import of an element's results: once, by run hash, and only of what it was given."""

import math

import pytest

from tests.wina_core.remote.cluster.array import SPECS, kept, lines, result, whole
from wina_core.jobs import Partial, RunFailed, RunStarted
from wina_core.records import MetricRecord
from wina_core.remote.cluster.importing import import_lines
from wina_core.remote.cluster.kept import ElementProgress
from wina_core.remote.cluster.requests import Lines
from wina_core.specs import SYNTHETIC
from wina_core.store import MetricFilter, Store
from wina_core.store.spill import Recorded


def test_lines_that_come_twice_are_stored_once(store: Store) -> None:
    array = kept(store)
    content = lines(*whole(array.elements[0]))
    for _ in range(2):
        found = import_lines(array, 0, content, ElementProgress(), store)
    assert found.progress.ended
    assert len(store.metric_rows(MetricFilter())) == 2
    assert store.run_status(SPECS[0].content_hash()) == "done"


def test_import_continues_at_the_offset(store: Store) -> None:
    array = kept(store)
    first = import_lines(array, 0, lines(result(SPECS[0]), end=100), ElementProgress(), store)
    second = import_lines(array, 0, lines(result(SPECS[1]), end=200), first.progress, store)
    assert (second.progress.offset, second.progress.results, second.progress.ended) == (200, 2, False)


@pytest.mark.parametrize(
    "message",
    [
        result(SPECS[2]),
        result(SPECS[0], unit="arc_easy"),
        RunStarted(job_id="x", run=SPECS[3].content_hash()),
        RunFailed(job_id="x", run="../../x", error="none"),
    ],
)
def test_what_was_not_asked_of_an_element_ends_its_import_alone(store: Store, message: Recorded) -> None:
    array = kept(store)
    found = import_lines(array, 0, lines(result(SPECS[0]), message, result(SPECS[1])), ElementProgress(), store)
    assert found.progress.ended
    assert "not asked" in found.progress.error
    assert [row.run for row in store.metric_rows(MetricFilter())] == [SPECS[0].content_hash()]


@pytest.mark.parametrize("text", ["{}\n", "not json\n", '{"at": 1, "message": {"type": "done"}}\n', "\x00\n"])
def test_a_malformed_line_ends_the_import_of_its_element(store: Store, text: str) -> None:
    found = import_lines(kept(store), 0, Lines(text=text, end=len(text)), ElementProgress(), store)
    assert "malformed" in found.progress.error


def test_a_file_without_an_end_ends_the_import(store: Store) -> None:
    for end in (0, 2**40):
        found = import_lines(kept(store), 0, Lines(text="", end=end), ElementProgress(), store)
        assert found.progress.ended


def test_times_of_another_clock_are_brought_into_the_possible(store: Store) -> None:
    array = kept(store)
    line = lines(result(SPECS[0])).text.replace('"at":1', '"at":9')
    import_lines(array, 0, Lines(text=line, end=len(line)), ElementProgress(), store)
    assert store.run_status(SPECS[0].content_hash()) == "done"
    assert Partial(job_id="x", unit=result(SPECS[0]).unit).unit.unit == SYNTHETIC


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"seconds": math.nan}, "a time that is none"),
        ({"metrics": (MetricRecord(task="t", metric="m", value=1.0, n=2**63),)}, "a number that is none, or too large"),
        ({"metrics": (MetricRecord(task="\x1b[2J", metric="m", value=1.0),)}, "a name that cannot be shown"),
    ],
)
def test_values_that_no_database_holds_fail_their_element_alone(
    store: Store, changes: dict[str, object], fault: str
) -> None:
    array, faulty = kept(store), result(SPECS[0])
    faulty = faulty.model_copy(update={"unit": faulty.unit.model_copy(update=changes)})
    found = import_lines(array, 0, lines(faulty), ElementProgress(), store)
    assert found.progress.error == f"The results of element 0 are refused: {fault}."


def test_errors_control_no_terminal(store: Store) -> None:
    failed = RunFailed(job_id="x", run=SPECS[0].content_hash(), error="no \x1b]0;title\x07memory")
    (error,) = import_lines(kept(store), 0, lines(failed), ElementProgress(), store).failures
    assert error.isprintable()
