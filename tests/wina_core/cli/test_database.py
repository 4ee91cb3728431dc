"""`wina database`: copies, merges, backups and an overview."""

import json
from pathlib import Path

from tests.wina_core.conftest import Wina
from tests.wina_core.samples import run, study, unit
from wina_core.store import Store


def _filled(place: Path, sparsity: float) -> Path:
    with Store(place) as store:
        store.save_study(study(str(sparsity)), (run(sparsity),))
        store.record_unit(unit(run(sparsity)))
    return place


def test_databases_are_merged_with_counts_and_digests(wina: Wina, tmp_path: Path) -> None:
    one, other = _filled(tmp_path / "one.sqlite", 0.5), _filled(tmp_path / "other.sqlite", 0.25)
    target = tmp_path / "target.sqlite"
    (metrics,) = (
        row for row in json.loads(wina.succeeds("database", "copy", one, target, "--json")) if row["table"] == "metrics"
    )
    assert (metrics["rows"], metrics["written"], metrics["kept"], len(metrics["digest"])) == (1, 1, 0, 16)
    code, out, err = wina("database", "merge", one, other, "--into", target)
    assert (code, out.count("metrics"), err.count("Verified: ")) == (0, 2, 2)
    info = {
        row["property"]: row["value"]
        for row in json.loads(wina.succeeds("database", "info", "--database", target, "--json"))
    }
    assert (info["place"], info["kind"], info["runs"], info["metrics"]) == (str(target), "sqlite", 2, 2)


def test_nothing_is_merged_where_one_source_is_missing(wina: Wina, tmp_path: Path) -> None:
    one, target = _filled(tmp_path / "one.sqlite", 0.5), tmp_path / "target.sqlite"
    assert "no results database" in wina.fails(1, "database", "merge", one, tmp_path / "none", "--into", target)
    assert not target.exists()


def test_a_backup_is_named_and_the_default_database_is_left_alone(wina: Wina, tmp_path: Path, home: Path) -> None:
    assert "There is no results database" in wina.fails(1, "database", "info")
    assert not list(home.rglob("*.sqlite"))
    saved = Path(wina.succeeds("database", "backup", "--database", _filled(tmp_path / "one.sqlite", 0.5)).strip())
    assert (saved.parent, saved.name.startswith("one-2"), saved.suffix) == (tmp_path, True, ".sqlite")


def test_a_password_is_not_printed(wina: Wina, tmp_path: Path) -> None:
    url = "postgresql+psycopg://me:secret@127.0.0.1:9/results"
    for words in (("copy", url, tmp_path / "a.sqlite"), ("info", "--database", url), ("backup", "--database", url)):
        code, out, err = wina("database", *words)
        assert (code, "secret" in out + err) == (1, False), err
