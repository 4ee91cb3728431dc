"""Units that another run has measured alike are copied instead of computed again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.wina_core.samples import LAYOUT, WINA, run, study, unit
from wina_core.records import SampleRecord
from wina_core.specs import FIDELITY, EvaluationSpec, MethodSpec, ModelSource, RunSpec, TaskSpec, TextSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, Store
from wina_core.studies.expand import expand, labelled

MODEL = ModelSource(location="org/name")
SAMPLE = SampleRecord(task="choice", doc=0, scores={"acc": (1.0, 1.0)}, target="0", response="[]")


def _study(name: str, **evaluation: object) -> StudySpec:
    content = {"name": name, "models": [MODEL], "configurations": [{"method": WINA}], "sparsities": [0.5]}
    return StudySpec.model_validate(content | {"evaluation": EvaluationSpec.model_validate(evaluation)})


def _run(study: StudySpec) -> RunSpec:
    (run,) = expand(study)
    return run


@pytest.fixture
def store(store: Store) -> Store:
    """Holds one task and the fidelity of one run, the task with its one document."""
    first = _study("first", tasks=["choice"], limit=100)
    store.save_study(first, [_run(first)])
    store.record_unit(unit(_run(first), FIDELITY, value=0.5))
    store.record_unit(unit(_run(first), value=0.75).model_copy(update={"samples": (SAMPLE,)}))
    return store


def test_a_task_added_to_a_study_is_all_that_is_computed(store: Store) -> None:
    more = _study("more", tasks=["choice", "other"], limit=100)
    run = _run(more)
    assert [pending.units for pending in store.pending([run], samples=True)] == [("other",)], "before it is saved, too"
    store.save_study(more, [run])
    assert [pending.units for pending in store.pending([run])] == [("other",)]
    assert store.runs(more.content_hash())[0].status == "queued"
    rows = store.metric_rows(MetricFilter(study=more.content_hash()))
    assert [(row.unit, row.value) for row in rows] == [(FIDELITY, 0.5), ("choice", 0.75)]
    assert store.samples(run.content_hash(), "choice") == [SAMPLE]
    layers = store.layer_map(run.content_hash())
    assert layers is not None
    assert layers.values[0] == (0.5, 0.5)


def test_a_run_that_is_complete_by_what_others_measured_is_done(store: Store) -> None:
    less = _study("less", tasks=[{"name": "choice", "limit": 100}], fidelity=False)
    store.save_study(less, [_run(less)])
    assert store.pending([_run(less)]) == []
    assert store.runs(less.content_hash())[0].status == "done"
    store.save_study(less, [_run(less)])
    assert len(store.metric_rows(MetricFilter(study=less.content_hash()))) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"evaluation": EvaluationSpec(tasks=("choice",), limit=99)},
        {"evaluation": EvaluationSpec(tasks=(TaskSpec(name="choice", num_fewshot=5),), limit=100)},
        {"evaluation": EvaluationSpec(tasks=("choice",), limit=100, seed=1, fidelity=TextSpec(tokens=128))},
        {"evaluation": EvaluationSpec(tasks=("choice",), limit=100, batch_size=1)},
        {"method": MethodSpec(name="wina", variant="as_released")},
        {"plan": {"kind": "uniform", "sparsity": 0.25}},
        {"model": MODEL.model_copy(update={"fingerprint": "another"})},
    ],
)
def test_what_differs_in_anything_that_its_numbers_depend_on_is_measured_itself(
    store: Store, changes: dict[str, object]
) -> None:
    (first,) = expand(_study("first", tasks=["choice"], limit=100))
    other = RunSpec.model_validate({**first.model_dump(), **changes})
    alike = {FIDELITY} if other.evaluation.limit == 99 or other.evaluation.tasks != ("choice",) else set()
    assert {unit for run in store.pending([other]) for unit in run.units} == set(other.evaluation.units) - alike


def test_equal_tables_with_different_origins_are_one_stored_run(store: Store) -> None:
    table = SparsityPlan.uniform(LAYOUT, 0.5)
    edited = table.with_cells({}, provenance="edited")
    content = {"models": [MODEL], "configurations": [{"method": WINA}], "evaluation": EvaluationSpec(tasks=("choice",))}
    both, one = (
        StudySpec.model_validate(content | {"name": name, "plans": plans})
        for name, plans in (("both", [edited, table]), ("one", [table.with_cells({}, provenance="greedy")]))
    )
    store.save_study(both, labelled(both))
    (stored,) = store.runs(both.content_hash())
    assert (stored.plan, stored.units_total) == ("edited", 2)
    labels = store.run_labels(both.content_hash())
    assert [(label.run, label.allocation) for label in labels] == [(stored.run, "edited"), (stored.run, "uniform")]
    for name in EvaluationSpec(tasks=("choice",)).units:
        store.record_unit(unit(expand(both)[0], name))
    assert store.pending(expand(one)) == []
    store.save_study(one, labelled(one))
    assert [row.run for row in store.runs(one.content_hash())] == [stored.run]
    assert [label.allocation for label in store.run_labels(one.content_hash())] == ["greedy"]
    assert len(store.runs()) == 2


def test_a_superseded_run_is_shown_with_its_warning_and_never_reused(tmp_path: Path) -> None:
    file, reason = tmp_path / "results.sqlite", "Superseded: it was measured wrongly."
    with Store(file) as store:
        store.save_study(study(), (run(),))
        store.record_unit(unit(run()))
    with closing(sqlite3.connect(file)) as connection, connection:  # as a migration does
        connection.execute("UPDATE runs SET superseded = ?, hash = 'no spec has this'", (reason,))
    with Store(file) as store:
        (row,) = store.metric_rows()
        assert (row.value, reason in row.warning) == (0.75, True)
        assert [pending.units for pending in store.pending([run()])] == [run().evaluation.units]
