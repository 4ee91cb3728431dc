"""A disk that fills while a study is computed: the study stops, and the same study continues once there is space."""

import pytest
from sqlalchemy import event

from wina_core.api.studies import compute_study
from wina_core.errors import WinaError
from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, ModelSource, SyntheticSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
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


def limit(store: Store, pages: int) -> None:
    """Have SQLite refuse to let the database grow by more pages."""
    with store._engine.connect() as connection:
        most = pages + connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    event.listen(store._engine, "connect", lambda raw, _: raw.execute(f"PRAGMA max_page_count = {most}"))
    store._engine.dispose()


def finished(store: Store) -> dict[tuple[str, str], float]:
    return {(row.run, row.unit): row.finished for row in store.metric_rows()}


def test_a_study_stops_on_a_full_disk_and_continues_once_there_is_space(file_store: Store) -> None:
    runs = expand(STUDY)
    file_store.save_study(STUDY, runs)
    limit(file_store, SPARE_PAGES)
    with pytest.raises(WinaError, match=r"is full or failing.* The same command continues with what is not stored"):
        compute_study(STUDY, LaunchOptions(), file_store)
    before = finished(file_store)
    assert 0 < len(before) < len(runs)
    file_store.close()
    with Store(file_store.url.database) as store:
        assert compute_study(STUDY, LaunchOptions(), store).failures == ()
        assert before.items() <= finished(store).items(), "what was stored is not computed again"
        assert {row.status for row in store.runs()} == {"done"}
