"""A disk that fills while a study is computed: it stops with one sentence, and goes on once there is space."""

from pathlib import Path

import pytest

from tests.wina_core.store.full_disk import limit
from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.cli.computing import RunOptions, compute
from wina_core.errors import WinaError
from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, ModelSource, TextSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.studies.expand import expand

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


def finished(store: Store) -> dict[tuple[str, str], float]:
    return {(row.run, row.unit): row.finished for row in store.metric_rows()}


def test_a_full_disk_stops_the_study_at_once_and_it_goes_on_from_there(study: StudySpec, store: Store) -> None:
    runs = expand(study)
    store.save_study(study, runs)
    limit(store, SPARE_PAGES)
    with pytest.raises(WinaError) as caught:
        compute(study, RunOptions(), store)
    assert str(caught.value) == (
        f"The disk that holds {store.url.database} is full or failing; "
        "free some space and try again, stored results are safe."
    )
    before = finished(store)
    computed = {run for run, _ in before}
    assert 0 < len(computed) < len(runs) - 1
    assert sum(row.started is not None for row in store.runs()) <= len(computed) + 1, "no run is begun in vain"

    limit(store, None)
    assert compute(study, RunOptions(), store).failures == ()
    after = finished(store)
    assert before.items() <= after.items(), "nothing is computed twice"
    assert {row.status for row in store.runs()} == {"done"}
    assert {run for run, _ in after} == {spec.content_hash() for spec in runs}
