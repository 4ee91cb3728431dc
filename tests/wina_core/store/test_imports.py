"""Results of other tools in the results database: apart from measured ones, and each file once."""

from pathlib import Path

import pytest

from tests.wina_core.samples import MODEL, run, study, unit
from wina_core.errors import WinaError
from wina_core.store import Store
from wina_core.store.imported.candidate import read_candidate, read_import

DATA = Path(__file__).parent / "imported" / "data"
BENCH, LOG = (read_import(DATA / name)[0] for name in ("bench.json", "kl.log"))


def test_a_file_is_stored_once_with_its_points_date_and_model_and_removed_with_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("time.time", lambda: 2e9)
        first, second = store.record_import(BENCH, MODEL), store.record_import(LOG, MODEL)
    log, bench = store.imports()
    assert (bench.id, bench.content, log.id, log.content) == (first, BENCH, second, LOG)
    assert (log.model, log.location, log.model_hash) == ("small llama", MODEL.location, MODEL.content_hash())
    assert (bench.date, log.date) == (BENCH.measured, 2e9)  # a log has no date
    again = BENCH.model_copy(update={"file": "copy.json"})
    with pytest.raises(WinaError, match=r'copy.json was imported already, on .* as number 1 \("bench.json"\)'):
        store.record_import(again, MODEL)
    store.remove_imports([first])
    assert [stored.content for stored in store.imports()] == [LOG]
    with pytest.raises(WinaError, match=f"There is no import number {first}; stored ones: {second}"):
        store.remove_imports([second, first])
    assert len(store.imports()) == 1


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
