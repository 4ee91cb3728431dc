"""Launches: what is saved and queued, what is left out, and what is refused before anything is saved."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from pydantic import ValidationError

from tests.wina_core.samples import unit
from wina_core.errors import WinaError
from wina_core.specs import COST, COST_CONTEXT, FIDELITY, Configuration, MethodSpec, ModelSource, TextSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.studies.launch import LaunchOptions, StudyOptions, launch, study_of

pytestmark = pytest.mark.usefixtures("home")
TEXT = TextSpec(source="demo:heldout", tokens=512)
OPTIONS = StudyOptions(
    name="tiny",
    model=ModelSource(location="demo"),
    configurations=[Configuration(method=MethodSpec(name="wina"))],
    sparsities=[0.25, 0.5],
    fidelity=TEXT,
    cost_context=0,
)
STUDY = study_of(OPTIONS)


def test_the_cost_of_a_token_is_counted_where_anything_is_measured() -> None:
    assert study_of(replace(OPTIONS, cost_context=None)).evaluation.cost_context == COST_CONTEXT
    assert study_of(replace(OPTIONS, cost_context=None, fidelity=None)).evaluation.cost_context is None
    assert set(study_of(replace(OPTIONS, cost_context=64)).evaluation.units) == {FIDELITY, COST}
    assert STUDY.evaluation.cost_context is None


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"limit": 0}, "limit"),
        ({"sparsities": [0.5, 1.5]}, "sparsities"),
    ],
)
def test_a_fault_is_that_of_its_option(changes: dict[str, object], option: str) -> None:
    with pytest.raises(ValidationError) as refused:
        study_of(replace(OPTIONS, **changes))  # type: ignore[arg-type]
    assert refused.value.errors()[0]["loc"][0] == option


def test_a_launch_saves_the_study_and_has_the_job_of_what_is_missing(store: Store) -> None:
    launched = launch(STUDY, LaunchOptions(samples=True), store)
    assert launched.study == STUDY.content_hash() == store.studies()[0].study
    assert launched.job is not None
    assert [run.spec.plan.sparsity for run in launched.job.runs] == [0.25, 0.5]  # type: ignore[union-attr]
    assert launched.job.samples
    assert (launched.missing, launched.total) == (2, 2)
    assert launched.remark == "2 measurements to compute."
    assert {row.status for row in store.runs()} == {"queued"}


def test_what_is_stored_or_queued_elsewhere_is_left_out_unless_it_is_recomputed(store: Store) -> None:
    first, second = (run.spec for run in launch(STUDY, LaunchOptions(), store).pending)
    store.record_unit(unit(first, FIDELITY))
    again = launch(STUDY, LaunchOptions(), store)
    assert [run.spec for run in again.pending] == [second]
    assert again.remark == "1 of 2 measurements are stored and reused."
    queued = launch(STUDY, LaunchOptions(queued=frozenset({second.content_hash()})), store)
    assert queued.job is None
    assert queued.pending == ()
    assert len(launch(STUDY, LaunchOptions(recompute=True), store).pending) == 2


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (lambda: study_of(replace(OPTIONS, fidelity=None)), "Nothing would be measured"),
        (lambda: study_of(replace(OPTIONS, fidelity=TEXT.model_copy(update={"tokens": 8}))), "do not fill one row"),
        (lambda: study_of(replace(OPTIONS, data_folder="/none")), "data folder"),
    ],
)
def test_nothing_is_saved_of_a_study_that_is_refused(
    store: Store, study: Callable[[], StudySpec], message: str
) -> None:
    with pytest.raises(WinaError, match=message):
        launch(study(), LaunchOptions(), store)
    assert store.studies() == []
