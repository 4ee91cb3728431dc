"""Copies, merges and backups of databases: nothing lost, nothing doubled, and the source as it was."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from tests.wina_core.samples import (
    ENVIRONMENT,
    EVALUATION,
    LAYOUT,
    MODEL,
    WINA,
    completion,
    run,
    study,
    summary,
    timed,
    unit,
)
from tests.wina_core.store.test_imports import BENCH
from tests.wina_core.store.test_opening import VERSION
from tests.wina_core.store.test_reuse import SAMPLE
from wina_core.errors import Cancelled, WinaError
from wina_core.jobs import RotateJob, Submit
from wina_core.records import CalibrationRecord, LayerRecord, RotationReport
from wina_core.specs import NO_ROTATION, CalibrationSpec, RotationSpec
from wina_core.specs.latency import LatencyPoint
from wina_core.specs.plans import SparsityPlan
from wina_core.store import Store
from wina_core.store.annotation_texts import RunAnnotations
from wina_core.store.connection import for_writing, open_engine, parse_url
from wina_core.store.copying.backup import back_up_database
from wina_core.store.copying.kinds import KINDS
from wina_core.store.copying.merge import copy_database
from wina_core.store.copying.rows import read_entries
from wina_core.store.copying.source import open_source
from wina_core.store.faults import first_fault
from wina_core.store.tables import Metric, Table
from wina_core.studies.run_labels import LabelledRun, own_label

RUNS = (run(0.5), run(0.25))
POINT = LatencyPoint(
    outputs=8, inputs=8, batch=1, dtype="float32", method="wina", selection="topk", sparsity=0.5, backend="auto",
    repetitions=3,
)  # fmt: skip
HASHES = [each.content_hash() for each in RUNS]
Content = dict[tuple[str, Any], tuple[Any, Any]]


def content(place: str | Path) -> Content:
    """Time and digests of all that a database holds, by table and identity."""
    with open_source(place) as source, source.engine.connect() as connection:
        found = {}
        for kind in KINDS:
            ids = list(connection.scalars(kind.table.select().with_only_columns(kind.table.c.id)))
            for identity, entry in read_entries(connection, kind, "id", ids).items():
                found[kind.table.name, identity] = entry.time, entry.sums
        return found


def fill(store: Store) -> None:
    """Store some of everything."""
    report = RotationReport(
        rotation="r",
        logits_deviation=float("nan"),
        residuals=(LayerRecord(layer=0, projection="q", metric="energy", value=0.5),),
        shortcut_parameters=0,
        seconds=1.0,
    )
    store.record_model(MODEL, summary())
    store.record_rotation(MODEL, RotationSpec(mode="global"), report)
    calibration = CalibrationRecord(key="cache", tokens=10, seconds=1.0, layers=report.residuals)
    store.record_calibration(MODEL, NO_ROTATION, WINA, CalibrationSpec(), calibration)
    store.save_plan("a plan", SparsityPlan(layout=LAYOUT, sparsity=((0.2, 0.5), (0.3, 0.6))))
    store.save_study(study(), [LabelledRun(each, own_label(each)) for each in RUNS])
    store.begin_run(HASHES[0], ENVIRONMENT)
    for name in EVALUATION.units:
        store.record_unit(unit(RUNS[0], name).model_copy(update={"samples": (SAMPLE,)}))
    store.record_unit(unit(RUNS[1], value=float("nan")))
    store.annotate_runs({HASHES[0]: RunAnnotations(("best",), "a \N{SNOWMAN} with \0", True)})
    store.record_latency(timed(POINT))
    store.record_completion(completion())
    store.record_completion(completion(None, prompt="no environment").model_copy(update={"environment": None}))
    store.record_import(BENCH, MODEL)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with Store(tmp_path / "filled.sqlite") as store:
        fill(store)
        store.end_runs(HASHES, "cancelled")
    return tmp_path / "filled.sqlite"


def test_every_table_is_copied_but_that_of_jobs() -> None:
    copied = {table for kind in KINDS for table in kind.tables}
    assert set(Table.metadata.tables.values()) - copied == {Table.metadata.tables["jobs"]}


def test_a_copy_holds_everything_and_copying_again_changes_nothing(filled: Path, address: str, tmp_path: Path) -> None:
    before = filled.read_bytes()
    first = copy_database(filled, address)
    assert {each.table for each in first} == {table.name for kind in KINDS for table in kind.tables} - {"decoding"}
    assert all(each.written == each.rows > each.kept == 0 for each in first)
    again = copy_database(filled, address)
    assert [each._replace(written=each.rows) for each in again] == first
    assert (sum(each.written for each in again), filled.read_bytes()) == (0, before)
    with Store(filled) as one, Store(address) as other:
        assert other.metric_rows() == one.metric_rows()
        assert other.run_labels(study().content_hash()) == one.run_labels(study().content_hash())
        assert other.samples(HASHES[0], "choice") == [SAMPLE]
        assert other.imports()[0].content == BENCH
    assert copy_database(address, tmp_path / "back.sqlite") == first
    assert content(back_up_database(address, tmp_path / "backup.sqlite")) == content(filled)
    assert first_fault(tmp_path / "back.sqlite") == ""


def test_runs_and_jobs_of_a_living_program_stay_its_own(tmp_path: Path) -> None:
    target = tmp_path / "copy.sqlite"
    with Store(tmp_path / "results.sqlite") as store:
        fill(store)
        store.keep_jobs([Submit(job_id="job", job=RotateJob(model=MODEL, rotation=RotationSpec(mode="global")))])
        copy_database(store.url.database, target)
        assert [each.status for each in store.runs()] == ["done", "queued"]
    with Store(target) as copied:
        assert [each.status for each in copied.runs()] == ["done", "interrupted"]
        assert copied.unfinished_jobs() == []
        copied.save_study(study(), RUNS)
        copy_database(tmp_path / "results.sqlite", target)
        assert [each.status for each in copied.runs()] == ["done", "queued"], "they are computed here now"


def test_the_newer_unit_wins_and_a_run_whose_units_come_from_both_is_done(tmp_path: Path) -> None:
    one, other = tmp_path / "one.sqlite", tmp_path / "other.sqlite"
    for place, at, names in ((one, 10.0, ("choice",)), (other, 20.0, EVALUATION.units)):
        with Store(place) as store, store.dated(at):
            store.save_study(study(), RUNS)
            for name in names:
                store.record_unit(unit(RUNS[0], name, value=at))
            store.record_unit(unit(RUNS[1], names[0], value=at))
            store.end_runs(HASHES, "cancelled")
    reports = {each.table: each for each in copy_database(one, other)}
    assert (reports["units"].written, reports["units"].kept) == (1, 1)
    with Store(other) as store:
        assert [each.status for each in store.runs()] == ["done", "done"]
        assert sorted(row.value for row in store.metric_rows()) == [10.0, 20.0, 20.0, 20.0]


def test_annotations_are_united_and_a_deletion_counts_unless_the_run_was_computed_later(tmp_path: Path) -> None:
    one, other = tmp_path / "one.sqlite", tmp_path / "other.sqlite"
    for place, mark in ((one, RunAnnotations(("a",), "first", True)), (other, RunAnnotations(("b",), "second"))):
        with Store(place) as store, store.dated(1.0):
            store.save_study(study(), RUNS)
            store.end_runs(HASHES, "cancelled")
            store.annotate_runs({HASHES[0]: mark})
    with Store(one) as store:
        store.delete_runs([HASHES[1]])
    copy_database(one, other)
    with Store(other) as store:
        assert store.run_details()[HASHES[0]][:3] == ("a, b", "first\nsecond", True)
        assert [each.run for each in store.deleted_runs()] == [HASHES[1]]
        store.save_study(study(), RUNS)
        store.record_unit(unit(RUNS[1]))
        store.end_runs(HASHES, "cancelled")
    copy_database(one, other)
    with Store(other) as store:
        assert store.deleted_runs() == []


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["unit", "tag", "note", "plan", "rotation", "completion", "study", "timing"]),
        st.integers(0, 1),
        st.sampled_from(EVALUATION.units),
        st.integers(1, 3),
    ),
    max_size=8,
)


def make(place: Path, records: list[tuple[str, int, str, int]]) -> Path:
    """Make a database of random records with few times, values and identities."""
    with Store(place) as store:
        with store.dated(1.0):
            store.save_study(study(), RUNS[: 1 + len(records) % 2])
        known = set(store.run_details())
        for what, which, name, number in records:
            with store.dated(float(number)):
                if what == "study":
                    store.save_study(study(), RUNS[: 1 + which])
                    known |= set(HASHES[: 1 + which])
                elif what == "plan":
                    table = ((number / 10, 0.5), (0.3, 0.6))
                    store.save_plan(name, SparsityPlan(layout=LAYOUT, sparsity=table))
                elif what == "completion":
                    store.record_completion(completion(text=name, end="stopped" if which else "length"))
                elif what == "timing":
                    store.record_latency(timed(POINT, median=number))
                elif what == "rotation":
                    report = RotationReport(
                        rotation="r", logits_deviation=0.0, residuals=(), shortcut_parameters=0, seconds=number
                    )
                    store.record_rotation(MODEL, RotationSpec(mode="global"), report)
                elif HASHES[which] in known and what == "unit":
                    store.record_unit(unit(RUNS[which], name, value=number / 2))
                elif HASHES[which] in known:
                    marks = RunAnnotations((name,), f"note {number}", bool(number % 2))
                    store.annotate_runs({HASHES[which]: marks}, ("tags",) if what == "tag" else ("note", "pinned"))
        with store.dated(float(len(records))):
            store.end_runs(HASHES, "cancelled")
    return place


@settings(max_examples=4)
@given(RECORDS, RECORDS)
def test_a_merge_is_the_union_in_either_order(first: Any, second: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        a, b = content(make(here / "a", first)), content(make(here / "b", second))
        for target, source in (("ab", "a"), ("ab", "b"), ("ba", "b"), ("ba", "a")):
            copy_database(here / source, here / target)
        merged = content(here / "ab")
        assert merged == content(here / "ba")
        assert merged.keys() == a.keys() | b.keys()
        for key in merged:
            if key[0] not in ("runs",):
                assert merged[key] == max(each[key] for each in (a, b) if key in each)
        for source in ("a", "b", "ba"):
            assert sum(each.written for each in copy_database(here / source, here / "ab")) == 0


KILLED = """
import os, signal, sys
from wina_core.store.copying import merge, rows
rows.MOST_ROWS = 20
def kill(done, total):
    if done >= total * float(sys.argv[3]) / 2:
        os.kill(os.getpid(), signal.SIGKILL)
merge.copy_database(sys.argv[1], sys.argv[2], kill)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="programs cannot be killed here")
def test_a_killed_copy_leaves_a_valid_database_that_copying_again_completes(filled: Path, address: str) -> None:
    for share in ("0.3", "0.7"):
        command = [sys.executable, "-c", KILLED, str(filled), address, share]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        with Store(address) as store:
            assert all(each.status != "done" or each.units_done == each.units_total for each in store.runs())
    assert content(address).keys() < content(filled).keys()
    copy_database(filled, address)
    assert content(address) == content(filled)


def test_a_cancelled_copy_stops_between_two_transactions(filled: Path, tmp_path: Path) -> None:
    def cancel(_done: int, _total: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        copy_database(filled, tmp_path / "copy.sqlite", cancel)
    assert first_fault(tmp_path / "copy.sqlite") == ""


def test_a_target_that_does_not_hold_what_it_should_is_an_error(filled: Path, address: str) -> None:
    def spoil(done: int, total: int) -> None:
        if done == total // 2:  # all is copied, nothing verified
            engine = open_engine(parse_url(address))
            with for_writing(engine).begin() as connection:
                connection.execute(update(Metric).values(value=0.7499999999))
            engine.dispose()

    with pytest.raises(WinaError, match=r"results.* is not complete: the row .* of the table units differs"):
        copy_database(filled, address, spoil)


def test_what_cannot_be_a_source_is_refused_and_left_alone(filled: Path, tmp_path: Path) -> None:
    with pytest.raises(WinaError, match="There is no results database"):
        copy_database(tmp_path / "none.sqlite", filled)
    assert not (tmp_path / "none.sqlite").exists()
    with pytest.raises(WinaError, match="both the source and the target"):
        copy_database(filled, f"sqlite:///{filled}")
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute(f"UPDATE {VERSION} SET version_num = '9999'")
    with pytest.raises(WinaError, match="written by a newer version"):
        copy_database(filled, tmp_path / "copy.sqlite")


def test_a_backup_opens_as_a_database_and_replaces_no_file(filled: Path, tmp_path: Path) -> None:
    with Store(filled) as store:  # in use
        saved = back_up_database(filled)
        store.record_unit(unit(RUNS[1], EVALUATION.units[0]))
    assert saved.parent == tmp_path
    assert content(saved).keys() < content(filled).keys()
    with pytest.raises(WinaError, match="already exists; name another file"):
        back_up_database(filled, saved)
    assert [each for each in os.listdir(tmp_path) if each.startswith(".")] == []


def test_what_is_not_what_its_hash_says_replaces_nothing(filled: Path, tmp_path: Path) -> None:
    forged, before = tmp_path / "forged.sqlite", content(filled)
    forged.write_bytes(filled.read_bytes())
    changed = {
        "models": ("spec", "'$.revision', 'x'", "opened"),
        "plans": ("plan", "'$.z', 1", "saved"),
        "rotations": ("spec", "'$.steps', 7", "recorded"),
        "runs": ("spec", "'$.seed', 7", "finished"),
    }
    with closing(sqlite3.connect(forged)) as connection, connection:
        for table, (column, change, time) in changed.items():
            connection.execute(f"UPDATE {table} SET {column} = json_set({column}, {change}), {time} = 1e300")
    copy_database(forged, filled)
    assert content(filled) == before


@pytest.mark.parametrize("table", ["runs", "rotations", "models"])
def test_a_source_whose_lists_cannot_be_read_is_refused_whole(filled: Path, tmp_path: Path, table: str) -> None:
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute(f"UPDATE {table} SET spec = '{{\"z\": 1}}'")
    with pytest.raises(WinaError, match=r"filled.sqlite is damaged \("):
        copy_database(filled, tmp_path / "target.sqlite")
    with Store(tmp_path / "target.sqlite") as store:
        assert store.runs() == []


def test_a_value_that_would_fill_the_memory_is_refused(filled: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute("UPDATE runs SET note = CAST(zeroblob(100000000) AS TEXT) WHERE id = 1")
    with pytest.raises(WinaError, match=r"filled.sqlite is damaged \(it has a value of more than 64 MiB\)"):
        copy_database(filled, tmp_path / "target.sqlite")
