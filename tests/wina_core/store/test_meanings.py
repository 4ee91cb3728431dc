"""An older database after the meanings of specs changed: nothing is lost, and nothing stale is reused.

data/results-0005.sql was written by the program of schema 0005: runs of every method, allocations as released, models
with fused matrices, equal tables of different origins, marks, samples, a deleted run, calibrations and timings.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from wina_core.report import make_report
from wina_core.report.findings import gather
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    NO_ROTATION,
    CalibrationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.latency import DecodePoint
from wina_core.specs.plans import SparsityPlan, UniformSparsity
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricRow, Store
from wina_core.studies.expand import expand, labelled, specs_of

OLD = Path(__file__).parent / "data" / "results-0005.sql"
LLAMA, PHI = ModelSource(location="org/llama"), ModelSource(location="org/phi")
OWN = MethodSpec(name="scap", variant="own")
RSPARSE = MethodSpec(name="rsparse", variant="as_released")
THRESHOLD = MethodSpec(name="wina", selection="threshold")
HALF = UniformSparsity(sparsity=0.5)
OLD_CALIBRATION = CalibrationSpec(text=TextSpec(source="demo:calibration", tokens=49_152))
"""What calibrations read by default."""
DENSE_THRESHOLDS = OLD_CALIBRATION.model_copy(update={"thresholds": "dense"})
KEPT = ("units", "metrics", "samples", "layer_stats", "runs", "study_runs", "plans", "calibrations", "decoding")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "results.sqlite")) as connection:
        connection.executescript(OLD.read_text(encoding="utf-8"))
    return tmp_path / "results.sqlite"


@pytest.fixture
def before(file: Path) -> dict[int, dict[str, Any]]:
    return rows(file)


@pytest.fixture
def store(file: Path, before: dict[int, dict[str, Any]]) -> Iterator[Store]:
    assert before
    with Store(file) as store:
        yield store


def rows(file: Path, table: str = "runs") -> dict[int, dict[str, Any]]:
    """Return a table's rows by id."""
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        return {row["id"]: dict(row) for row in connection.execute(f"SELECT * FROM {table}")}


def study(store: Store, name: str) -> StudySpec:
    """Return the last launched study of this name."""
    return stored_study(store, next(row.study for row in store.studies() if row.name == name))


def stored_study(store: Store, name: str) -> StudySpec:
    """Return the study with this hash."""
    spec = store.study_spec(name)
    assert spec is not None
    return spec


def spec_of(row: dict[str, Any]) -> RunSpec:
    return RunSpec.model_validate_json(row["spec"])


def counts(file: Path) -> dict[str, int]:
    with closing(sqlite3.connect(file)) as connection:
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in KEPT}


def test_nothing_is_lost(file: Path) -> None:
    stored = counts(file)
    with Store(file) as store:
        assert counts(file) == stored
        assert len(store.metric_rows()) == stored["metrics"] - 2, "those of the deleted run are hidden"
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with Store(file) as store:
        assert len(store.metric_rows()) == stored["metrics"] - 2


@pytest.mark.usefixtures("store")
def test_every_run_has_the_hash_of_its_spec_unless_it_is_superseded_or_a_twin(file: Path) -> None:
    after = rows(file)
    others = {number for number, row in after.items() if spec_of(row).content_hash() != row["hash"]}
    superseded = {number for number, row in after.items() if row["superseded"]}
    assert superseded < others
    assert [after[number]["plan_provenance"] for number in sorted(others - superseded)] == [
        "edited",
        "preset",
        "uniform",
        "refine",
    ]


def test_only_superseded_and_unfinished_runs_are_computed_when_all_studies_are_run_again(store: Store) -> None:
    specs = [spec for row in store.studies() for spec in expand(stored_study(store, row.study))]
    pending = {(run.spec.model, run.spec.method, run.spec.rotation, run.spec.plan) for run in store.pending(specs)}
    told = Counter(
        (model.location, method.label, rotation.label, plan.provenance) for model, method, rotation, plan in pending
    )
    released, partly = AS_RELEASED_ROTATION.label, "global (qkv, gate+activations) + heads"
    greedy = "greedy (as released by WINA)"
    assert told == {
        ("org/llama", "wina (as released)", "none", "uniform"): 1,
        ("org/llama", "rsparse (as released)", "none", "uniform"): 1,
        ("org/llama", "wina", "none", greedy): 1,
        ("org/llama", "teal", "none", greedy): 1,
        ("org/llama", "wina", "none", "greedy (as released by WINA, step 0.05)"): 1,  # never computed
        ("org/llama", "teal", "none", "greedy (as released by WINA, step 0.05)"): 1,
        ("org/llama", "teal", "none", "uniform"): 1,  # by thresholds: it was deleted
        ("org/phi", "wina", released, "uniform"): 2,  # in two dtypes
        ("org/phi", "dense", released, "uniform"): 2,
        ("org/phi", "wina", partly, "uniform"): 2,
    }
    assert all(run.units == run.spec.evaluation.units for run in store.pending(specs))


def test_superseded_runs_stay_visible_with_a_warning_of_their_own(store: Store, file: Path) -> None:
    listed: dict[str, MetricRow] = {row.run: row for row in store.metric_rows()}
    superseded = [row for row in rows(file).values() if row["superseded"]]
    assert len(superseded) == 10
    for row in superseded:
        shown = listed[row["hash"]]
        assert shown.warning == shown.superseded == row["superseded"]
        assert shown.settings == "superseded"
        assert store.run_status(row["hash"]) == "done"
        assert store.pending([spec_of(row)]) != []
    assert {row.run for row in listed.values() if row.warning} == {row["hash"] for row in superseded}
    planned = {row.run for model in (LLAMA, PHI) for row in store.planned_runs(model, 100)}
    assert planned
    assert not planned & {row["hash"] for row in superseded}
    reasons = Counter(" ".join(row["superseded"].partition("(")[2].split()[:3]) for row in superseded)
    assert reasons == {"the rotation took": 6, "the greedy search": 2, "top k kept": 1, "rho was 0.95,": 1}
    (wina,) = (row["superseded"] for row in superseded if row["method_label"] == "wina (as released)")
    assert wina == (
        "Superseded: the released code was read wrongly when this was measured (top k kept n - floor(s n + 1/2) of n "
        "inputs, where the released code keeps int(n (1 - s))). Run its study again to measure it correctly."
    )


def test_what_was_called_scap_is_our_own_variant(store: Store) -> None:
    evaluation = study(store, "methods").evaluation
    top, shared = (
        RunSpec(model=LLAMA, method=method, plan=HALF, calibration=calibration, evaluation=evaluation)
        for method, calibration in (
            (OWN, OLD_CALIBRATION),
            (OWN.model_copy(update={"selection": "threshold", "masks": "shared"}), DENSE_THRESHOLDS),
        )
    )
    assert store.pending([top, shared]) == []
    listed = {row.run: row for row in store.metric_rows()}
    assert listed[top.content_hash()].method == "scap (own variant)"
    assert listed[shared.content_hash()].method == "scap (own variant, shared masks)"
    read = "calibrated on 49152 tokens of demo:calibration"
    assert listed[top.content_hash()].settings == read
    assert listed[shared.content_hash()].settings == f"{read}, dense thresholds"
    (details,) = (each for run, each in store.run_details().items() if run == top.content_hash())
    assert (details.tags, details.note, details.pinned) == ("best, mine", "ours", True)
    assert details.studies == "methods, scap at the top k"
    assert [sample.doc for sample in store.samples(shared.content_hash(), "choice")] == [0]
    names = {
        label.run: label.configuration for label in store.run_labels(study(store, "scap at the top k").content_hash())
    }
    assert names[top.content_hash()] == "scap (own variant)"
    named = [label.configuration for label in store.run_labels(study(store, "methods").content_hash())]
    assert "scap as we call it" in named
    assert f"scap (own variant), {RotationSpec().label}" in named


def test_equal_tables_are_one_run_that_has_the_most_finished_units(
    store: Store, file: Path, before: dict[int, dict[str, Any]]
) -> None:
    after = rows(file)
    tables = {number: spec_of(row) for number, row in after.items() if isinstance(spec_of(row).plan, SparsityPlan)}
    of_hash = {row["hash"]: number for number, row in after.items()}
    owners = {of_hash[spec.content_hash()] for spec in tables.values()}
    assert [after[number]["plan_provenance"] for number in sorted(owners)] == ["greedy", "edited"]
    kept = {number: after[number]["hash"] == before[number]["hash"] for number in tables if number not in owners}
    uniform = next(number for number in tables if after[number]["plan_provenance"] == "uniform")
    assert kept == {number: number != uniform for number in kept}
    assert before[uniform]["hash"] in {after[number]["hash"] for number in owners}, "its hash is the table's own"
    found = labelled(study(store, "tables"))
    assert store.pending(specs_of(found)) == []
    store.save_study(study(store, "tables"), found)
    assert len(store.runs(study(store, "tables").content_hash())) == 2
    allocations = [label.allocation for label in store.run_labels(study(store, "tables").content_hash())]
    assert allocations == ["preset", "refine", "edited", "edited"]
    assert after[min(owners)]["note"] == "this table"


def test_of_equal_studies_the_newer_has_the_hash(store: Store, file: Path) -> None:
    older, newer = (row for row in rows(file, "studies").values() if row["name"] == "tables")
    assert newer["hash"] == StudySpec.model_validate_json(older["spec"]).content_hash() != older["hash"]
    assert [len(store.runs(row["hash"])) for row in (older, newer)] == [4, 4]


def test_every_study_is_reported_whole(store: Store, tmp_path: Path) -> None:
    for row in store.studies():
        spec = stored_study(store, row.study)
        if spec.content_hash() != row.study:
            continue  # the older of two equal ones
        findings = gather(store, spec)
        assert {each.run for each in findings.rows} <= {each.run for each in findings.runs}
        assert len({each.run for each in findings.runs}) == row.runs_total
        assert any("Superseded" in warning for warning in findings.warnings) == (
            row.name in ("methods", "allocated", "fused")
        )
    page = make_report(store, study(store, "methods"), tmp_path / "report")
    written = page.with_suffix(".md").read_text(encoding="utf-8")
    assert "> Superseded: the released code was read wrongly" in written
    assert "scap (own variant)" in written
    assert "scap as we call it" in written


def test_calibrations_and_rotations_are_found_where_they_mean_the_same(store: Store) -> None:
    assert store.cell_stats(LLAMA, NO_ROTATION, OWN)
    assert store.cell_stats(LLAMA, NO_ROTATION, OWN.model_copy(update={"masks": "shared"}))
    assert not store.cell_stats(LLAMA, NO_ROTATION, MethodSpec(name="scap"))
    assert not store.cell_stats(LLAMA, NO_ROTATION, RSPARSE)
    wina = MethodSpec(name="wina")
    assert store.cell_stats(PHI, RotationSpec(), wina)
    assert not store.cell_stats(PHI, AS_RELEASED_ROTATION, wina)
    assert [row.rotation for row in store.rotations(PHI)] == [RotationSpec()]
    assert [row.rotation for row in store.rotations(LLAMA)] == [AS_RELEASED_ROTATION]


def test_timed_models_are_found_where_they_mean_the_same(store: Store) -> None:
    timed = [
        DecodePoint(model=LLAMA, method=THRESHOLD, calibration=DENSE_THRESHOLDS, sparsity=0.5),
        DecodePoint(model=LLAMA, method=MethodSpec(name="wina"), sparsity=0.5),
        DecodePoint(model=LLAMA, method=OWN, calibration=OLD_CALIBRATION, sparsity=0.5),
    ]
    stale = [
        DecodePoint(model=LLAMA, method=RSPARSE, sparsity=0.5),
        DecodePoint(model=PHI, method=MethodSpec(name="wina"), rotation=AS_RELEASED_ROTATION, sparsity=0.5),
    ]
    found = store.decode_points()
    assert sorted(found) == sorted(point.content_hash() for point in timed)
    assert store.measured_points(found) == {}, "they lack the prompt's part, which is measured on demand"
    assert not found.keys() & {point.content_hash() for point in stale}
    assert [row.method for row in store.decode_rows()] == [
        "wina",
        "wina",
        "rsparse (as released, superseded)",
        "scap (own variant)",
        "wina (superseded)",
    ]


def test_a_spec_that_is_refused_keeps_its_hash_and_its_text(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("""UPDATE runs SET spec = '{"model": {"location": 1}}' WHERE id = 1""")
        connection.execute("UPDATE runs SET spec = 'no spec' WHERE id = 2")
        connection.execute("UPDATE studies SET spec = '{}' WHERE id = 1")
    before, studies = rows(file), rows(file, "studies")
    with Store(file) as store:
        assert len(store.runs()) == len(before) - 1
    after = rows(file)
    for number in (1, 2):
        assert (after[number]["hash"], after[number]["spec"]) == (before[number]["hash"], before[number]["spec"])
        assert not after[number]["superseded"]
    assert rows(file, "studies")[1] == studies[1]


def test_calibrations_keep_the_hash_of_their_own_text(store: Store) -> None:
    """The usual text is another one now: what was measured on the old one must not pass for it."""
    with closing(sqlite3.connect(store.url.database)) as connection:
        rows = connection.execute("SELECT hash, spec FROM calibrations").fetchall()
    texts = [(name, json.loads(spec)) for name, spec in rows]
    plain = [(name, spec) for name, spec in texts if "text" in spec]
    assert plain
    for name, spec in plain:
        assert name == CalibrationSpec.model_validate(spec).content_hash()
        assert name != CalibrationSpec().content_hash()
