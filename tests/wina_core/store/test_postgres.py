"""PostgreSQL alone: databases of other programs, passwords, restarts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wina_core.samples import LAYOUT, run, study, unit
from tests.wina_core.store.postgres import Server
from wina_core.errors import WinaError
from wina_core.files.paths import resources_folder
from wina_core.records import SampleRecord
from wina_core.specs.plans import SparsityPlan
from wina_core.store import Store, upgrade
from wina_core.store.connection import parse_url, place_of

pytestmark = pytest.mark.service


@pytest.fixture
def url(server: Server) -> str:
    """The address of an empty results database."""
    url = server.create()
    Store(url).close()
    return url


# ---- opening ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            f"DROP TABLE {upgrade.VERSION_TABLE}",
            "belongs to another program",
        ),
        (
            f"UPDATE {upgrade.VERSION_TABLE} SET version_num = '0999'",
            "was written by a newer version of WINA Workbench",
        ),
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


@pytest.mark.parametrize("source", ["url", "parameter", "environment", "PGPASSWORD", "PGPASSFILE", "none"])
def test_a_password_comes_from_where_it_is_kept_and_goes_nowhere(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, source: str
) -> None:
    database = f"with_password?host={server.folder}"
    if not server.execute("SELECT 1 FROM pg_database WHERE datname = 'with_password'"):
        server.execute("CREATE ROLE carol LOGIN PASSWORD 'secret word'")
        server.execute("CREATE DATABASE with_password OWNER carol")
    url = f"postgres://carol@/{database}"
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
    assert "secret" not in caplog.text


# ---- values ----------------------------------------------------------------------------------------------------------


def test_texts_with_nul_are_stored_and_more_runs_than_a_statement_takes(url: str) -> None:
    with Store(url) as store:
        store.save_study(study(), [run()])
        sample = SampleRecord(task="choice", doc=0, scores={"acc": (1.0, 1.0)}, target="0", response="a\0b")
        store.record_unit(unit(run()).model_copy(update={"samples": (sample,)}))
        assert [sample.response for sample in store.samples(run().content_hash(), "choice")] == ["a\ufffdb"]
        store.end_runs([f"{number:016x}" for number in range(70_000)], "cancelled")


def test_a_number_too_large_for_a_column_is_a_sentence(url: str) -> None:
    with Store(url) as store:
        store.save_study(study(), [run()])
        metric = unit(run()).metrics[0].model_copy(update={"n": 2**63})
        with pytest.raises(WinaError, match="cannot hold a value"):
            store.record_unit(unit(run()).model_copy(update={"metrics": (metric,)}))


# ---- restarts --------------------------------------------------------------------------------------------------------


def test_a_write_fails_while_the_server_is_gone_and_the_next_one_connects_again(server: Server, url: str) -> None:
    spec = run()
    with Store(url) as store:
        store.save_study(study(), (spec,))
        with server.killed():
            with pytest.raises(WinaError, match="cannot be reached"):
                store.record_unit(unit(spec))
            with pytest.raises(WinaError, match="cannot be reached"):
                Store(url)
        for name in spec.evaluation.units:
            store.record_unit(unit(spec, name))
        assert [row.status for row in store.runs()] == ["done"]


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
