"""Opening a database: fresh, older, newer, foreign, damaged, locked, read-only."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.wina_core.samples import LAYOUT, MODEL, run, study, unit
from wina_core.errors import WinaError
from wina_core.specs.plans import SparsityPlan
from wina_core.store import Store, upgrade
from wina_core.store.connection import open_to_read, parse_url

VERSION = upgrade.VERSION_TABLE


def table_definitions(file: Path) -> dict[str, list[str]]:
    """Return the definition of every table and index, without spaces and quotes, its clauses sorted."""
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {
        name: sorted(clause.strip("()") for clause in "".join(sql.replace('"', "").split()).split(","))
        for name, sql in rows
        if name != VERSION
    }


def _fill(file: Path) -> None:
    with Store(file) as store:
        store.save_study(study(), (run(),))
        store.record_unit(unit(run()))


def _change(file: Path, script: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)


def test_a_fresh_database_is_made_with_its_folder_and_opened_again_without_a_backup(tmp_path: Path) -> None:
    file = tmp_path / "a folder" / "😀 it's ?%20#" / "results.sqlite"
    _fill(file)
    with Store(file) as store:
        assert len(store.metric_rows()) == 1
    (tmp_path / "empty.sqlite").touch()
    with Store(f"sqlite:///{tmp_path / 'empty.sqlite'}") as store:
        assert store.runs() == []
    assert list(file.parent.glob("*.backup-*")) == []
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_database_whose_driver_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_arguments: object, **_options: object) -> None:
        raise ModuleNotFoundError("No module named 'driver'", name="driver")

    monkeypatch.setattr("wina_core.store.postgres.create_engine", missing)
    with pytest.raises(WinaError, match=r"postgresql://me@host/results needs the Python package driver, .* pip"):
        Store("postgresql://me:secret@host/results")


def test_head_is_the_newest_migration() -> None:
    assert max(file.name for file in (upgrade.MIGRATIONS / "versions").glob("[0-9]*.py"))[:4] == upgrade.HEAD


SCHEMA_0019 = """
DROP TABLE rotations;
DROP TABLE imported_files;
CREATE TABLE rotations (
    id INTEGER NOT NULL, model_id INTEGER NOT NULL, hash TEXT NOT NULL, label TEXT NOT NULL, spec TEXT NOT NULL,
    logits_deviation DOUBLE, shortcut_parameters INTEGER NOT NULL, seconds DOUBLE NOT NULL, exported_to TEXT,
    recorded DOUBLE NOT NULL, choice TEXT, CONSTRAINT pk_rotations PRIMARY KEY (id),
    CONSTRAINT uq_rotations_model_id_hash UNIQUE (model_id, hash),
    CONSTRAINT fk_rotations_model_id FOREIGN KEY(model_id) REFERENCES models (id)
);
CREATE TABLE imported_files (
    id INTEGER NOT NULL, model_id INTEGER NOT NULL, file TEXT NOT NULL, digest TEXT NOT NULL, tool TEXT NOT NULL,
    version TEXT NOT NULL, measured DOUBLE, imported DOUBLE NOT NULL, CONSTRAINT pk_imported_files PRIMARY KEY (id),
    CONSTRAINT fk_imported_files_model_id FOREIGN KEY(model_id) REFERENCES models (id),
    CONSTRAINT uq_imported_files_digest UNIQUE (digest)
);
CREATE TABLE imported_points (
    id INTEGER NOT NULL, file_id INTEGER NOT NULL, point TEXT NOT NULL, CONSTRAINT pk_imported_points PRIMARY KEY (id),
    CONSTRAINT fk_imported_points_file_id FOREIGN KEY(file_id) REFERENCES imported_files (id) ON DELETE CASCADE
);
CREATE INDEX ix_imported_points_file_id ON imported_points (file_id);
INSERT INTO imported_files VALUES (1, 1, 'a.csv', 'd', 'table', '', NULL, 1.0);
INSERT INTO imported_points VALUES (1, 1, '{"name": "Q4", "metrics": {"kl": {"value": 0.5}}}');
INSERT INTO rotations VALUES (1, 1, 'h', 'l', '{}', 0.1, 0, 1.0, NULL, 1.0, NULL);
INSERT INTO layer_stats (rotation_id, layer, projection, metric, value) VALUES (1, 0, 'q', 'm', 0.5);
UPDATE wina_schema_version SET version_num = '0019'
"""


def test_a_database_of_the_oldest_schema_gets_the_tables_of_a_fresh_one(tmp_path: Path) -> None:
    older, fresh = tmp_path / "older.sqlite", tmp_path / "fresh.sqlite"
    for file in (older, fresh):
        _fill(file)
    _change(older, SCHEMA_0019)
    with Store(older) as store:
        assert len(store.metric_rows()) == 1
        assert store.rotations(MODEL) == []
        (imported,) = store.imports()
        assert (imported.content.file, imported.content.points[0].metrics["kl"].value) == ("a.csv", 0.5)
    assert table_definitions(older) == table_definitions(fresh)


NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade():
    with op.batch_alter_table("runs", recreate="always") as table:
        table.add_column(sa.Column("extra", sa.Text(), nullable=False, server_default="new"))
    {then}
"""


def _add_a_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str = "pass") -> None:
    """Pretend that this program knows one more schema than the one the database was written with."""
    folder = tmp_path / "migrations 100%"
    shutil.copytree(upgrade.MIGRATIONS, folder)
    (folder / "versions" / "9999_next.py").write_text(NEXT.format(head=upgrade.HEAD, then=then))
    monkeypatch.setattr(upgrade, "MIGRATIONS", folder)
    monkeypatch.setattr(upgrade, "HEAD", "9999")


def test_an_older_database_is_upgraded_after_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, before = tmp_path / "results.sqlite", upgrade.HEAD
    _fill(file)
    # A reader keeps the last writes in the write-ahead log: the backup has to take them along.
    with closing(sqlite3.connect(file)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchone()
        with Store(file) as store:
            store.save_plan("late", SparsityPlan.uniform(LAYOUT, 0.5))
        reader.execute("ROLLBACK")
        _add_a_migration(tmp_path, monkeypatch)
        with Store(file) as store:
            assert [row.value for row in store.metric_rows()] == [0.75]
            assert store.layer_map(run().content_hash()) is not None
            assert len(store.runs(study().content_hash())) == 1
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT extra FROM runs").fetchall() == [("new",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    (backup,) = tmp_path.glob(f"results.sqlite.backup-{before}-*")
    with closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("SELECT name FROM plans").fetchall() == [("late",)]
        assert "extra" not in [row[1] for row in connection.execute("PRAGMA table_info(runs)")]


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, head = tmp_path / "results.sqlite", upgrade.HEAD
    _fill(file)
    before = table_definitions(file)
    with monkeypatch.context() as patch:
        _add_a_migration(tmp_path, patch, then="raise RuntimeError('half way')")
        with pytest.raises(WinaError) as caught:
            Store(file)
    (backup,) = tmp_path.glob("results.sqlite.backup-*")
    assert str(caught.value) == (
        f"The results database {file} could not be upgraded from schema {head} to 9999 (half way); it is as it was and "
        f"a copy is in {backup}."
    )
    assert table_definitions(file) == before
    with Store(file) as store:
        assert len(store.metric_rows()) == 1


def test_only_the_last_backups_are_kept_with_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "results [1]*.sqlite"
    _fill(file)
    olds = [tmp_path / f"{file.name}.backup-0001-2026010{index}-000000" for index in range(5)]
    for index, old in enumerate(olds):
        old.write_bytes(b"")
        os.utime(old, (index, index))
    newest = upgrade.back_up(file, "0001")
    assert {path for path in tmp_path.iterdir() if ".backup-" in path.name} == {*olds[3:], newest}


def _overwrite(file: Path) -> None:
    _fill(file)
    content = bytearray(file.read_bytes())
    content[100:4096] = b"\xff" * (4096 - 100)
    file.write_bytes(content)


DAMAGED = "is damaged; put one of the backups beside it in its place"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            f"UPDATE {VERSION} SET version_num = '0999'",
            f"was written by a newer version of WINA Workbench (schema 0999, this one knows {upgrade.HEAD})",
        ),
        (
            f"UPDATE {VERSION} SET version_num = '0016'",
            "was written before version 0.2.0 of WINA Workbench (schema 0016) and is not read any more. Export",
        ),
        (
            lambda file: _change(file, "CREATE TABLE runs (name TEXT)"),
            "belongs to another program",
        ),
        (
            lambda file: file.write_text("not a database at all\n" * 100),
            "is not a results database",
        ),
        (_overwrite, DAMAGED),
        (f"DELETE FROM {VERSION}", DAMAGED),
        ("PRAGMA foreign_keys = OFF; DROP TABLE metrics", DAMAGED),
        ("CREATE VIEW evil AS SELECT 1", "holds the view or trigger 'evil'"),
        (
            "CREATE TRIGGER evil AFTER INSERT ON studies BEGIN SELECT load_extension('x'); END",
            "the view or trigger 'evil'",
        ),
    ],
)
def test_a_file_that_cannot_be_opened_is_refused_untouched(
    tmp_path: Path, make: str | Callable[[Path], object], message: str
) -> None:
    file = tmp_path / "results.sqlite"
    if isinstance(make, str):
        _fill(file)
        _change(file, make)
    else:
        make(file)
    before = file.read_bytes()
    with pytest.raises(WinaError) as caught:
        Store(file)
    assert str(file) in str(caught.value)
    assert message in str(caught.value)
    assert file.read_bytes() == before
    assert list(tmp_path.glob("*.backup-*")) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "is a folder, but results are kept in a file; name a file in it"),
        ("n" * 300, "cannot be written"),
        ("://nonsense", "'://nonsense' is not a database that can be opened here; give the path of a file"),
        ("nosuchdatabase://host/name", "'nosuchdatabase://host/name' is not a database that can be opened here; give"),
        ("sqlite:///x.sqlite?plugin=evil", "is not a database that can be opened here"),
    ],
)
def test_a_place_where_no_database_can_be_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(WinaError, match=message):
        Store(name if ":" in name else tmp_path / name)


@pytest.mark.parametrize(
    "address",
    ["postgresql://me:sesame@host:port/db", "mysql://host/db?password=sesame", "postgresql://me:ses@ame@host/db"],
)
def test_an_address_that_is_refused_shows_no_password(address: str) -> None:
    with pytest.raises(WinaError, match="This address is not a database") as refused:
        parse_url(address)
    assert "sesame" not in str(refused.value)
    assert "ame@host" not in str(refused.value)


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder that others may look into, and no privileges while the test runs."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    if os.name == "posix" and os.getuid() == 0:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(os.name != "posix", reason="folder permissions as POSIX has them")
def test_a_database_in_a_read_only_folder_is_read_and_a_new_one_refused(nobody: Path) -> None:
    _fill(nobody / "results.sqlite")
    nobody.chmod(0o555)
    if os.getuid() == 0:
        os.seteuid(65534)
    refusal = r"cannot be written.*; make its folder writable or set WINA_DATABASE to a file"
    with Store(nobody / "results.sqlite") as store:
        assert len(store.metric_rows()) == 1
        assert re.search(refusal, store.problem)
        with pytest.raises(WinaError, match=refusal):
            store.save_plan("late", SparsityPlan.uniform(LAYOUT, 0.5))
        if os.getuid() == 0:
            os.seteuid(0)
        nobody.chmod(0o755)
        store.save_plan("late", SparsityPlan.uniform(LAYOUT, 0.5))
        assert store.problem == ""
        assert store.load_plan("late").plan == SparsityPlan.uniform(LAYOUT, 0.5)
    nobody.chmod(0o555)
    if os.getuid() == 0:
        os.seteuid(65534)
    with pytest.raises(WinaError, match=refusal):
        Store(nobody / "new.sqlite")


def test_a_database_is_read_without_shared_memory(tmp_path: Path) -> None:
    """SQLite cannot make its file of shared memory, as a folder is in its place."""
    file = tmp_path / "results.sqlite"
    _fill(file)
    with closing(sqlite3.connect(file)) as other:
        other.execute("INSERT INTO plans (name, plan, provenance, budget, saved) VALUES ('late', '', '', 0.5, 0)")
        other.commit()
        log = Path(f"{file}-wal").read_bytes()
        content = file.read_bytes()
    for name, written in (("with.sqlite", log), ("without.sqlite", b"")):
        copy = tmp_path / name
        copy.write_bytes(content)
        Path(f"{copy}-wal").write_bytes(written)
        Path(f"{copy}-shm").mkdir()
        with closing(open_to_read(parse_url(copy), copy).connect()) as connection:
            count = connection.exec_driver_sql("SELECT count(*) FROM plans").scalar_one()
            assert count == (1 if written else 0)


def test_a_database_that_stays_locked_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wina_core.store.connection.BUSY_SECONDS", 0.05)
    with Store(tmp_path / "results.sqlite") as store:
        store.save_study(study(), (run(),))
        with closing(sqlite3.connect(tmp_path / "results.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(WinaError, match=r"Another program keeps .* locked; close it and try again"):
                store.record_unit(unit(run()))
            assert store.metric_rows() == []
            other.execute("ROLLBACK")
        store.record_unit(unit(run()))
        assert len(store.metric_rows()) == 1


def test_opening_a_fresh_store_imports_nothing_heavy(tmp_path: Path) -> None:
    heavy = "alembic torch transformers triton lm_eval pandas numpy openpyxl pyarrow psycopg"
    code = (
        "import sys, wina_core.studies.expand, wina_core.files.tables\n"
        "from pathlib import Path\n"
        "from wina_core.store import Store\n"
        "Store(Path(sys.argv[1])).close()\n"
        f"print([name for name in {heavy.split()} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "r.sqlite")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
