"""Results of other tools in the results database: apart from measured ones, and each file once."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.wina_core.samples import MODEL, run, study, unit
from tests.wina_core.store.test_meanings import OLD
from wina_core.errors import WinaError
from wina_core.store import Store, schema
from wina_core.store.connection import open_engine, parse_url
from wina_core.store.imported.candidate import read_candidate
from wina_core.store.imported.read import read_import

DATA = Path(__file__).parent / "imported" / "data"
BENCH, LOG = (read_import(DATA / name)[0] for name in ("bench.json", "kl.log"))


def test_a_file_is_stored_with_its_points_date_and_model_and_removed_with_them(store: Store) -> None:
    with store.dated(2e9):
        first, second = store.record_import(BENCH, MODEL), store.record_import(LOG, MODEL)
    log, bench = store.imports()
    assert (bench.id, bench.content, log.id, log.content) == (first, BENCH, second, LOG)
    assert (log.model, log.location, log.model_hash) == ("small llama", MODEL.location, MODEL.content_hash())
    assert (bench.date, log.date) == (BENCH.measured, 2e9)  # a log has no date
    store.remove_imports([first])
    assert [each.content for each in store.imports()] == [LOG]
    with pytest.raises(WinaError, match=f"There is no import number {first}; stored ones: {second}"):
        store.remove_imports([second, first])
    assert len(store.imports()) == 1


def test_the_same_content_is_stored_once_whatever_its_name(store: Store) -> None:
    store.record_import(BENCH, MODEL)
    again = BENCH.model_copy(update={"file": "copy.json"})
    with pytest.raises(WinaError, match=r'copy.json was imported already, on .* as number 1 \("bench.json"\)'):
        store.record_import(again, MODEL)
    assert [each.content for each in store.imports()] == [BENCH]


def test_no_measured_result_changes_with_an_import(store: Store) -> None:
    store.save_study(study(), (run(),))
    store.record_unit(unit(run()))

    def measured() -> tuple[object, ...]:
        return store.metric_rows(), store.decode_rows(), store.latency_rows(), store.runs(), store.run_details()

    before = measured()
    store.record_import(BENCH, MODEL)
    assert measured() == before


def test_a_candidate_that_contradicts_the_model_or_is_known_stores_nothing(store: Store, tmp_path: Path) -> None:
    candidate = read_candidate(store, DATA / "kl.log", "demo")
    assert (candidate.model.location, candidate.remarks) == ("demo", ())
    store.record_import(candidate.file, candidate.model)
    with pytest.raises(WinaError, match="was imported already"):
        read_candidate(store, DATA / "kl.log", "demo")
    other = tmp_path / "other.log"
    other.write_text((DATA / "kl.log").read_text().replace("6.59 M", "1.10 B"))
    with pytest.raises(WinaError, match="has 1,100,000,000 weights"):
        read_candidate(store, other, "demo")
    assert len(store.imports()) == 1


def test_a_database_from_before_imports_opens_and_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "results.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(OLD.read_text(encoding="utf-8"))
    with monkeypatch.context() as patch:
        patch.setattr(schema, "HEAD", "0009")
        engine = open_engine(parse_url(file))
        schema.prepare(engine)
        engine.dispose()
    with Store(file) as store:
        assert store.run_details()
        assert store.imports() == []
        store.record_import(BENCH, MODEL)
        assert store.imports()[0].content == BENCH
