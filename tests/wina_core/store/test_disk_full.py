"""A disk that fills while a study is computed: the study goes on, and nothing that it computes is lost."""

import pytest

from tests.wina_core.store.full_disk import limit
from wina_core.api.studies import compute_study
from wina_core.errors import WinaError
from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, ModelSource, SyntheticSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import Backlog, Store
from wina_core.store.recorder import Recorded
from wina_core.studies.expand import expand
from wina_core.studies.launch import LaunchOptions

SPARE_PAGES = 1
"""Room for a few measurements, and far from all."""


STUDY = StudySpec(
    name="random networks",
    models=(ModelSource(location="synthetic"),),
    configurations=(Configuration(method=MethodSpec(name="wina")), Configuration(method=MethodSpec(name="teal"))),
    sparsities=tuple(step / 60 for step in range(1, 49)),
    evaluation=EvaluationSpec(synthetic=SyntheticSpec(size=8, seeds=1, networks=("lemma",)), fidelity=None),
)


def finished(store: Store) -> dict[tuple[str, str], float]:
    return {(row.run, row.unit): row.finished for row in store.metric_rows()}


def test_a_study_goes_on_while_the_disk_is_full_and_the_next_start_stores_the_rest(
    file_store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store, runs = file_store, expand(STUDY)
    store.save_study(STUDY, runs)
    limit(store, SPARE_PAGES)
    with pytest.raises(WinaError, match="results could not be stored; the next start stores them from") as caught:
        compute_study(STUDY, LaunchOptions(), store)
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
    file_store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = file_store
    monkeypatch.setattr("wina_core.store.backlog.RETRY_SECONDS", 0.0)
    enqueue = Backlog._enqueue
    messages = []

    def make_room(backlog: Backlog, message: Recorded) -> None:
        enqueue(backlog, message)
        messages.append(message)
        if len(messages) == 3:
            limit(store, None)

    monkeypatch.setattr(Backlog, "_enqueue", make_room)
    store.save_study(STUDY, expand(STUDY))
    limit(store, SPARE_PAGES)
    assert compute_study(STUDY, LaunchOptions(), store).failures == ()
    assert {row.status for row in store.runs()} == {"done"}
    errors = capsys.readouterr().err
    assert errors.count("Results wait in memory") == errors.count("All results that waited are stored now") == 1
