"""A disk that fills while a study is computed: the study goes on, and nothing that it computes is lost."""

from pathlib import Path

import pytest

from tests.wina_core.store.full_disk import limit
from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.api.studies import compute_study
from wina_core.errors import WinaError
from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, ModelSource, TextSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import Backlog, Store
from wina_core.store.recorder import Recorded
from wina_core.studies.expand import expand
from wina_core.studies.launch import LaunchOptions

SPARE_PAGES = 3
"""Room for a few measurements, and far from all."""


@pytest.fixture
def study(tmp_path: Path) -> StudySpec:
    text = TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)
    return StudySpec(
        name="net",
        models=(ModelSource(location=str(tiny_folder(tmp_path / "model"))),),
        configurations=(
            Configuration(),
            Configuration(method=MethodSpec(name="wina")),
            Configuration(method=MethodSpec(name="teal")),
        ),
        sparsities=tuple(step / 20 for step in range(1, 13)),
        evaluation=EvaluationSpec(fidelity=text),
    )


@pytest.fixture
def store(file_store: Store) -> Store:
    return file_store


def finished(store: Store) -> dict[tuple[str, str], float]:
    return {(row.run, row.unit): row.finished for row in store.metric_rows()}


def test_a_study_goes_on_while_the_disk_is_full_and_the_next_start_stores_the_rest(
    study: StudySpec, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = expand(study)
    store.save_study(study, runs)
    limit(store, SPARE_PAGES)
    with pytest.raises(WinaError, match="results could not be stored; the next start stores them from") as caught:
        compute_study(study, LaunchOptions(), store)
    assert f"The disk that holds {store.url.database} is full or failing" in str(caught.value)
    assert capsys.readouterr().err.count("Results wait in memory") == 1
    before = finished(store)
    assert 0 < len(before) < len(runs)

    store.close()
    with Store(store.url.database) as again:
        Backlog(again)
        after = finished(again)
        assert before.items() <= after.items()
        assert {run for run, _ in after} == {spec.content_hash() for spec in runs}
        assert {row.status for row in again.runs()} == {"done"}
        assert again.pending(runs) == []


def test_a_study_stores_what_waited_once_there_is_space(
    study: StudySpec, store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wina_core.store.backlog.RETRY_SECONDS", 0.0)
    enqueue = Backlog._enqueue
    messages = []

    def make_room(backlog: Backlog, message: Recorded) -> None:
        enqueue(backlog, message)
        messages.append(message)
        if len(messages) == 3:
            limit(store, None)

    monkeypatch.setattr(Backlog, "_enqueue", make_room)
    store.save_study(study, expand(study))
    limit(store, SPARE_PAGES)
    assert compute_study(study, LaunchOptions(), store).failures == ()
    assert {row.status for row in store.runs()} == {"done"}
    errors = capsys.readouterr().err
    assert errors.count("Results wait in memory") == errors.count("All results that waited are stored now") == 1
