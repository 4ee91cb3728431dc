"""`wina results merge`."""

import json
from pathlib import Path

from tests.wina_core.conftest import Wina
from tests.wina_core.samples import run, study, unit
from wina_core.store import Store


def filled(place: Path, sparsity: float) -> Path:
    with Store(place) as store:
        store.save_study(study(str(sparsity)), (run(sparsity),))
        store.record_unit(unit(run(sparsity)))
    return place


def test_databases_are_merged_into_one_that_is_made(wina: Wina, tmp_path: Path) -> None:
    one, other = filled(tmp_path / "one.sqlite", 0.5), filled(tmp_path / "other.sqlite", 0.25)
    target = tmp_path / "target.sqlite"
    added = json.loads(wina.succeeds("results", "merge", one, other, "--database", target, "--json"))
    assert {row["table"]: row["added"] for row in added}.items() >= {"runs": 2, "metrics": 2, "models": 1}.items()
    assert "--database" in wina.succeeds("results", "merge", "--help")
    with Store(target) as store:
        assert len(store.metric_rows()) == 2


def test_a_missing_source_and_a_password_are_one_sentence(wina: Wina, tmp_path: Path) -> None:
    target = tmp_path / "target.sqlite"
    assert "no results database" in wina.fails(1, "results", "merge", tmp_path / "none", "--database", target)
    code, out, err = wina("results", "merge", "postgresql+psycopg://me:secret@127.0.0.1:9/results")
    assert (code, "secret" in out + err) == (1, False), err
