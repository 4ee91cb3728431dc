"""PostgreSQL alone: databases of other programs, passwords, restarts, and upgrades of each version."""

import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine, MetaData, create_engine, insert, text

from tests.wina_core.samples import ENVIRONMENT, LAYOUT, MODEL, run, study, summary, unit
from tests.wina_core.store.postgres import Server
from tests.wina_core.store.test_meanings import OLD
from wina_core.errors import WinaError
from wina_core.files.paths import resources_folder
from wina_core.jobs import Done, EvaluateJob, Partial, PendingRun, Ready, RunStarted, Submit
from wina_core.records import SampleRecord
from wina_core.specs.plans import SparsityPlan
from wina_core.store import Backlog, Store, backlog, passwords, schema
from wina_core.store.connection import open_engine, parse_url, place_of

VERSIONS = [f"{number:04}" for number in range(1, int(schema.HEAD))]
if "WINA_LONG_TESTS" not in os.environ:  # one of each kind of rows through all steps from there, and the last step
    VERSIONS = ["0001", "0004", "0005", VERSIONS[-1]]


@pytest.fixture
def url(server: Server) -> str:
    """The address of an empty results database."""
    url = server.create()
    Store(url).close()
    return url


# ---- opening ---------------------------------------------------------------------------------------------------------


def test_a_fresh_database_is_filled_and_has_the_tables_of_the_migrations(server: Server) -> None:
    declared, migrated = server.create(), server.create()
    with Store(declared) as store:
        store.save_study(study(), (run(),))
    engine = open_engine(parse_url(migrated))
    schema._upgrade(engine, "0000")
    engine.dispose()
    columns = (
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
        "WHERE table_schema = current_schema() ORDER BY 1, 2"
    )
    constraints = (
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = current_schema()::regnamespace AND conname !~ '_version_' ORDER BY 1"
    )
    indices = (
        "SELECT indexname, replace(indexdef, current_schema() || '.', '') FROM pg_indexes "
        "WHERE schemaname = current_schema() AND indexname !~ '_version_' ORDER BY 1"
    )
    for query in (columns, constraints, indices):
        assert server.execute(query, migrated) == server.execute(query, declared)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            f"DROP TABLE {schema.VERSION_TABLE}",
            "belongs to another program",
        ),
        (f"UPDATE {schema.VERSION_TABLE} SET version_num = '0999'", "was written by a newer version of WINA Workbench"),
        ("DROP TABLE metrics", "is damaged"),
        (
            "ALTER TABLE plans RENAME TO hidden; CREATE VIEW plans AS SELECT * FROM hidden",
            "the view, rule or trigger 'pl",
        ),
        ("CREATE RULE nothing AS ON INSERT TO plans DO INSTEAD NOTHING", "holds the view, rule or trigger 'nothing'"),
    ],
)
def test_a_database_that_is_not_ours_is_refused_untouched(
    server: Server, url: str, statement: str, message: str
) -> None:
    server.execute(statement, url)
    tables = "SELECT relname, relkind FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY 1"
    before = server.execute(tables, url)
    with pytest.raises(WinaError, match=message):
        Store(url)
    assert server.execute(tables, url) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda url: url.replace("/results?", "/absent?"), "has no such results database"),
        (lambda url: url.replace("wina@", "nobody@"), "refuses this user or password"),
        (lambda url: url.replace("host=", "host=/absent"), "cannot be reached"),
        (lambda url: url.replace("postgresql:", "mysql:"), "is not a database that can be opened here"),
    ],
)
def test_a_database_that_cannot_be_opened_is_a_sentence(url: str, change: Callable[[str], str], message: str) -> None:
    with pytest.raises(WinaError, match=message):
        Store(change(url))


def test_who_may_not_make_tables_is_told_what_to_ask_for(server: Server) -> None:
    url = server.create()
    schema_name = server.execute("SELECT current_schema()", url)[0][0]
    server.execute(f"CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA {schema_name} TO guest", url)
    with pytest.raises(WinaError, match="GRANT CREATE ON SCHEMA public"):
        Store(url.replace("wina@", "guest@"))


# ---- passwords -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["url", "parameter", "environment", "PGPASSWORD", "PGPASSFILE", "keyring", "none"])
def test_a_password_comes_from_where_it_is_kept_and_goes_nowhere(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, source: str
) -> None:
    database = f"with_password?host={server.folder}"
    if not server.execute("SELECT 1 FROM pg_database WHERE datname = 'with_password'"):
        server.execute("CREATE ROLE carol LOGIN PASSWORD 'secret word'")
        server.execute("CREATE DATABASE with_password OWNER carol")
    url = f"postgres://carol@/{database}"
    asked = []
    passwords._from_keyring.cache_clear()

    def from_keyring(service: str, name: str) -> str:
        asked.append((service, name))
        if source != "keyring":
            raise RuntimeError("no keyring here")
        return "secret word"

    monkeypatch.setitem(__import__("sys").modules, "keyring", SimpleNamespace(get_password=from_keyring))
    (tmp_path / "pass").write_text("*:*:*:carol:secret word\n")
    (tmp_path / "pass").chmod(0o600)
    match source:
        case "url":
            url = url.replace("carol@", "carol:secret%20word@")
        case "parameter":
            url += "&password=secret%20word"
        case "environment":
            monkeypatch.setenv("WINA_DATABASE_PASSWORD", "secret word")
        case "PGPASSWORD":
            monkeypatch.setenv("PGPASSWORD", "secret word")
        case "PGPASSFILE":
            monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))
    assert place_of(parse_url(url)) == f"postgresql://carol@/{database.replace('/', '%2F')}"
    if source == "none":
        with pytest.raises(WinaError, match="refuses this user or password"):
            Store(url)
    else:
        with Store(url) as store:
            assert store.runs() == []
    assert asked == ([("wina-workbench", "carol@/with_password")] if source in ("keyring", "none") else [])
    assert "secret" not in caplog.text


# ---- values ----------------------------------------------------------------------------------------------------------


def test_texts_with_nul_are_stored_and_more_runs_than_a_statement_takes(url: str) -> None:
    with Store(url) as store:
        store.save_study(study(), [run()])
        sample = SampleRecord(task="choice", doc=0, scores={"acc": (1.0, 1.0)}, target="0", response="a\0b")
        store.record_unit(unit(run()).model_copy(update={"samples": (sample,)}))
        assert [each.response for each in store.samples(run().content_hash(), "choice")] == ["a\ufffdb"]
        store.end_runs([f"{number:016x}" for number in range(70_000)], "cancelled")


def test_a_number_too_large_for_a_column_is_a_sentence(url: str) -> None:
    with Store(url) as store:
        store.save_study(study(), [run()])
        metric = unit(run()).metrics[0].model_copy(update={"n": 2**63})
        with pytest.raises(WinaError, match="cannot hold a value"):
            store.record_unit(unit(run()).model_copy(update={"metrics": (metric,)}))


# ---- restarts --------------------------------------------------------------------------------------------------------


def test_results_wait_while_the_server_is_gone_and_the_session_takes_its_lock_again(
    server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "RETRY_SECONDS", 0.0)
    spec = run()
    with Store(url) as store:
        store.save_study(study(), (spec,))
        waiting = Backlog(store)
        waiting.record(Ready(pid=1, environment=ENVIRONMENT))
        units = spec.evaluation.units
        waiting.record(Submit(job_id="1", job=EvaluateJob(runs=(PendingRun(spec=spec, units=units),))))
        waiting.record(RunStarted(job_id="1", run=spec.content_hash()))
        with server.killed():
            waiting.record(Partial(job_id="1", unit=unit(spec, units[0])))
            assert "cannot be reached" in waiting.refusal
            with pytest.raises(WinaError, match="cannot be reached"):
                Store(url)
        waiting.record(Partial(job_id="1", unit=unit(spec, units[1])))
        waiting.record(Done(job_id="1"))
        assert (waiting.waiting, waiting.refusal) == (0, "")
        assert [row.status for row in store.runs()] == ["done"]
        until = time.monotonic() + 120
        while time.monotonic() < until and not _is_living(store):
            time.sleep(0.05)
        assert _is_living(store)


def _is_living(store: Store) -> bool:
    assert store._sessions is not None
    return store._session in (store._sessions.living() or ())


def test_what_another_program_writes_is_news(url: str) -> None:
    with Store(url) as here, Store(url) as there:
        here.has_news()
        here.save_plan("mine", SparsityPlan.uniform(LAYOUT, 0.5))
        time.sleep(0.2)
        assert not here.has_news()
        there.save_plan("theirs", SparsityPlan.uniform(LAYOUT, 0.5))
        until = time.monotonic() + 120
        while not (news := here.has_news()) and time.monotonic() < until:
            time.sleep(0.02)
        assert news


# ---- upgrades --------------------------------------------------------------------------------------------------------


_METRICS = """
INSERT INTO metrics (id, unit_id, task, metric, value, higher_is_better, n) VALUES
(8, 5, 't', 'acc', 0.1, 1, 3), (9, 5, 't', 'ppl', 0.2, NULL, NULL), (12, 6, 't', 'acc', 0.3, 1, 3);
"""
_METRICS_0004 = """
INSERT INTO measures (id, hash, task, metric) VALUES (2, 'h', 't', 'acc');
INSERT INTO metrics (id, unit_id, measure_id, value) VALUES (8, 5, 2, 0.1), (12, 6, 2, NULL);
"""


def _old_file(file: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an SQLite database of a version, from the stored one of version 0005 or with a few rows."""
    with closing(sqlite3.connect(file)) as connection:
        if version >= "0005":
            connection.executescript(OLD.read_text(encoding="utf-8"))
    _upgrade(str(file), version, monkeypatch)
    if version < "0005":
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(
                f"""
                INSERT INTO models (id, hash, label, location, spec) VALUES (7, 'm', 'model', 'there', '');
                INSERT INTO runs (id, hash, model_id, spec, rotation_label, method_label, arm_label, selection,
                plan_origin, target_sparsity, settings, seed, unit_count, status, error, owner, created) VALUES
                (3, 'r', 7, '', '', '', '', '', '', 0.5, '', 0, 2, 'done', '', '', 0);
                INSERT INTO units (id, run_id, unit, seconds, finished) VALUES (5, 3, 'a', 1, 1), (6, 3, 'b', 1, 1);
                {_METRICS_0004 if version == "0004" else _METRICS}
                """
            )


def _upgrade(place: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(schema, "HEAD", version)
        engine = open_engine(parse_url(place))
        found = schema.stored_version(engine)
        if found != version:
            schema._upgrade(engine, found or "0000")
        engine.dispose()


def _contents(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    metadata = MetaData()
    metadata.reflect(engine)
    with engine.connect() as connection:
        found = {}
        for table in metadata.sorted_tables:
            rows = [dict(row) for row in connection.execute(table.select()).mappings()]
            found[table.name] = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))
    return found


def _copy(source: Engine, target: Engine) -> None:
    """Copy all rows of one version to a database of the same version."""
    metadata = MetaData()
    metadata.reflect(target)
    rows = _contents(source)
    with target.begin() as connection:
        for table in metadata.sorted_tables:
            if table.name != schema.VERSION_TABLE and rows[table.name]:
                typed = [
                    {
                        name: bool(v) if v is not None and str(table.c[name].type) == "BOOLEAN" else v
                        for name, v in row.items()
                    }
                    for row in rows[table.name]
                ]
                connection.execute(insert(table), typed)
            if "id" in table.c:
                name = f"pg_get_serial_sequence('{table.name}', 'id')"
                connection.execute(text(f"SELECT setval({name}, (SELECT max(id) FROM {table.name}))"))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_database_of_every_version_is_upgraded_as_a_file_is(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    file, url = tmp_path / "results.sqlite", server.create()
    _old_file(file, version, monkeypatch)
    _upgrade(url, version, monkeypatch)
    old, new = create_engine(f"sqlite:///{file}"), create_engine(parse_url(url))
    _copy(old, new)
    monkeypatch.setattr("time.time", lambda: 2e9)  # when runs of ended programs were interrupted
    with Store(file) as store, Store(url) as other:
        rows = store.metric_rows()
        assert rows
        assert repr(other.metric_rows()) == repr(rows)
    before, after = _contents(old), _contents(new)
    for table in before:
        if version >= "0004" or table not in ("measures", "metrics"):  # their ids are new
            assert after[table] == before[table]
    with Store(url) as store:  # with ids that are free
        store.save_study(study(), (run(),))
        store.record_unit(unit(run()))
        store.record_model(MODEL, summary())
        assert len(store.metric_rows()) == len(rows) + 1
    for engine in (old, new):
        engine.dispose()


# ---- the guide -------------------------------------------------------------------------------------------------------


def test_the_statements_of_the_guide_let_two_people_share_a_database(server: Server) -> None:
    lines = (resources_folder() / "guide" / "team.md").read_text(encoding="utf-8").splitlines()
    statements = [line.strip() for line in lines if line.startswith(("    CREATE ROLE", "    ALTER"))]
    assert len(statements) == 3
    server.execute("CREATE ROLE anna LOGIN")
    server.execute("CREATE ROLE ben LOGIN")
    server.execute("CREATE DATABASE team_results OWNER anna TEMPLATE template0 ENCODING 'UTF8'")
    for statement in statements:
        server.execute(statement.replace("DATABASE results", "DATABASE team_results"), server.url("team_results"))
    with Store(server.url("team_results", "anna")) as anna, Store(server.url("team_results", "ben")) as ben:
        anna.save_study(study(), (run(),))
        ben.save_plan("half", SparsityPlan.uniform(LAYOUT, 0.5))
        assert len(ben.runs()) == len(anna.list_plans()) == 1
