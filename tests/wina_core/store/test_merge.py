"""Merge of databases: nothing lost, nothing doubled, and the source as it was."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select

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
from wina_core.store.annotations import RunAnnotations
from wina_core.store.connection import open_engine, parse_url
from wina_core.store.merge import merge_database
from wina_core.store.tables import StoreTable
from wina_core.studies.run_labels import LabelledRun, own_label

RUNS = (run(0.5), run(0.25))
POINT = LatencyPoint(
    outputs=8, inputs=8, batch=1, dtype="float32", method="wina", selection="topk", sparsity=0.5, backend="auto",
    repetitions=3,
)  # fmt: skip
HASHES = [spec.content_hash() for spec in RUNS]


def merge(source: str | Path, target: str | Path) -> dict[str, int]:
    with Store(target) as store:
        return merge_database(source, store)


def counts(address: str | Path) -> dict[str, int]:
    """Return the number of rows of each table that has some, without jobs."""
    engine = open_engine(parse_url(address))
    with engine.connect() as connection:
        row_counts = {
            name: connection.scalar(select(func.count()).select_from(table)) or 0
            for name, table in StoreTable.metadata.tables.items()
            if name != "jobs"
        }
    engine.dispose()
    return {name: count for name, count in row_counts.items() if count}


def results(address: str | Path) -> list[tuple[object, ...]]:
    """Return all measurements, in an order that does not depend on the database."""
    with Store(address) as store:
        return sorted((row.run, row.unit, row.task, row.metric, repr(row.value)) for row in store.metric_rows())


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
    store.save_study(study(), [LabelledRun(spec, own_label(spec)) for spec in RUNS])
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


def test_everything_arrives_and_merging_again_adds_nothing(filled: Path, address: str, tmp_path: Path) -> None:
    before = filled.read_bytes()
    assert merge(filled, address) == counts(filled)
    assert merge(filled, address) == {}
    assert filled.read_bytes() == before
    with Store(filled) as one, Store(address) as other:
        assert repr(other.metric_rows()) == repr(one.metric_rows())
        assert other.run_labels(study().content_hash()) == one.run_labels(study().content_hash())
        assert other.samples(HASHES[0], "choice") == [SAMPLE]
        assert other.layer_map(HASHES[0]) is not None
        assert other.imports()[0].content == BENCH
        assert len(other.completions()) == 2
    assert merge(address, tmp_path / "back.sqlite") == counts(filled)
    assert merge(tmp_path / "back.sqlite", filled) == {}


def test_runs_and_jobs_of_a_living_program_stay_its_own(tmp_path: Path) -> None:
    target = tmp_path / "copy.sqlite"
    with Store(tmp_path / "results.sqlite") as store:
        fill(store)
        store.keep_jobs([Submit(job_id="job", job=RotateJob(model=MODEL, rotation=RotationSpec(mode="global")))])
        merge(tmp_path / "results.sqlite", target)
        assert [row.status for row in store.runs()] == ["done", "queued"]
    with Store(target) as merged:
        assert [row.status for row in merged.runs()] == ["done", "interrupted"]
        assert merged.unfinished_jobs() == []
        merged.save_study(study(), RUNS)
        merge_database(tmp_path / "results.sqlite", merged)
        assert [row.status for row in merged.runs()] == ["done", "queued"], "they are computed here now"


def test_the_targets_results_stay_and_a_run_whose_units_come_from_both_is_done(tmp_path: Path) -> None:
    one, other = tmp_path / "one.sqlite", tmp_path / "other.sqlite"
    for file, value, names in ((one, 1.0, EVALUATION.units[:1]), (other, 2.0, EVALUATION.units)):
        with Store(file) as store:
            store.save_study(study(), RUNS)
            for name in names:
                store.record_unit(unit(RUNS[0], name, value=value))
            store.record_unit(unit(RUNS[1], EVALUATION.units[value == 2.0], value=value))
            store.end_runs(HASHES, "cancelled")
    assert merge(one, other)["units"] == 1
    with Store(other) as store:
        assert [row.status for row in store.runs()] == ["done", "done"]
        assert sorted(row.value for row in store.metric_rows()) == [1.0, 2.0, 2.0, 2.0]


def test_annotations_are_united_and_the_targets_note_stays(tmp_path: Path) -> None:
    one, other = tmp_path / "one.sqlite", tmp_path / "other.sqlite"
    marks = {one: RunAnnotations(("a",), "first", True), other: RunAnnotations(("b",), "second")}
    for file, mark in marks.items():
        with Store(file) as store:
            store.save_study(study(), RUNS)
            store.annotate_runs({HASHES[0]: mark})
    merge(one, other)
    with Store(other) as store:
        assert store.run_details()[HASHES[0]][:3] == ("a, b", "second", True)


KILLED = """
import os, signal, sys
from wina_core.store import Store, merge
merge._AT_ONCE = 1
def kill(done, total):
    if done >= total * 0.7:
        os.kill(os.getpid(), signal.SIGKILL)
with Store(sys.argv[2]) as store:
    merge.merge_database(sys.argv[1], store, kill)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="programs cannot be killed here")
def test_a_killed_merge_leaves_a_valid_database_that_merging_again_completes(filled: Path, address: str) -> None:
    command = [sys.executable, "-c", KILLED, str(filled), address]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with Store(address) as store:
        assert all(row.status != "done" or row.units_done == row.units_total for row in store.runs())
    assert counts(address) != counts(filled)
    merge(filled, address)
    assert counts(address) == counts(filled)
    assert results(address) == results(filled)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("", "cannot be merged into itself"),
        (f"UPDATE {VERSION} SET version_num = '9999'", "written by a newer version"),
        (f"UPDATE {VERSION} SET version_num = '0016'", "was written before version 0.2.0"),
        ("UPDATE runs SET spec = '{\"z\": 1}'", r"filled.sqlite is damaged \("),
        ("UPDATE rotations SET spec = '{\"z\": 1}'", r"filled.sqlite is damaged \("),
        ("UPDATE samples SET response = x'ff'", r"filled.sqlite is damaged \("),
        ("UPDATE metrics SET value = 'x'", r"filled.sqlite is damaged \("),
        ("UPDATE runs SET model_id = 9999", r"filled.sqlite is damaged \("),
        ("UPDATE runs SET note = CAST(zeroblob(2000000) AS TEXT) WHERE id = 1", "a value of more than 64 MiB"),
    ],
)
def test_what_cannot_be_a_source_is_refused(
    filled: Path, tmp_path: Path, change: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wina_core.store.connection.LARGEST_CELL", 2**20)
    with closing(sqlite3.connect(filled)) as database, database:
        database.execute(change)
    target = tmp_path / "target.sqlite" if change else filled
    before = counts(target) if not change else {}
    with Store(target) as store, pytest.raises(WinaError, match=reason):
        merge_database(filled, store)
    assert counts(target).get("units", 0) == before.get("units", 0), "the target holds no unit of a damaged file"


def test_nothing_that_is_here_is_replaced(filled: Path, tmp_path: Path) -> None:
    forged, before = tmp_path / "forged.sqlite", results(filled)
    forged.write_bytes(filled.read_bytes())
    with closing(sqlite3.connect(forged)) as connection, connection:
        connection.execute("UPDATE models SET spec = json_set(spec, '$.revision', 'x'), opened = 1e300")
        connection.execute("UPDATE runs SET finished = 1e300, settings = 'forged'")
        connection.execute("UPDATE units SET finished = 1e300")
        connection.execute("UPDATE metrics SET value = 7")
    assert merge(forged, filled) == {}
    assert results(filled) == before


def test_a_newer_measurement_takes_the_place_of_an_older_one_where_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, later = tmp_path / "here.sqlite", tmp_path / "there.sqlite"
    for file, now in ((older, 2.0), (later, 3.0)):
        monkeypatch.setattr("time.time", lambda now=now: now)
        with Store(file) as store:
            store.save_study(study(), RUNS[:1])
            for name in EVALUATION.units:
                store.record_unit(unit(RUNS[0], name))
    with Store(older) as store, closing(sqlite3.connect(older)) as connection:
        times = [set[float]()] * 3
        for index, newer in enumerate((False, True, True)):
            merge_database(later, store, newer=newer)
            times[index] = {time for (time,) in connection.execute("SELECT finished FROM units")}
    assert times == [{2.0}, {3.0}, {3.0}]
    assert counts(older) == counts(later)


def test_a_run_that_was_deleted_here_stays_deleted(filled: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "here.sqlite") as store:
        store.save_study(study(), RUNS)
        store.end_runs(HASHES, "cancelled")
        store.delete_runs(HASHES[:1])
        merge_database(filled, store)
        assert [row.run for row in store.deleted_runs()] == HASHES[:1]
        assert {row.run for row in store.metric_rows()} == {HASHES[1]}


def test_a_missing_source_is_refused_and_not_made_and_a_cancelled_merge_stops_between_two_transactions(
    filled: Path, tmp_path: Path
) -> None:
    def cancel(_done: int, _total: int) -> None:
        raise Cancelled

    with Store(tmp_path / "copy.sqlite") as store:
        with pytest.raises(WinaError, match="There is no results database"):
            merge_database(tmp_path / "none.sqlite", store)
        assert not (tmp_path / "none.sqlite").exists()
        with pytest.raises(Cancelled):
            merge_database(filled, store, cancel)
