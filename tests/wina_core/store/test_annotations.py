"""Tags, notes and pins on runs; runs that are deleted, restored, erased, or asked for again."""

import pytest

from tests.wina_core.samples import ENVIRONMENT, EVALUATION, run, study, unit
from wina_core.errors import WinaError
from wina_core.specs import FIDELITY, FREE_ROTATION, NO_ROTATION, RotationSpec
from wina_core.store import Store
from wina_core.store.annotations import RunAnnotations
from wina_core.store.run_reader import rotation_details

DONE, OTHER = run(0.5), run(0.25)
HASH = DONE.content_hash()


@pytest.fixture
def store(store: Store) -> Store:
    store.save_study(study(), (DONE, OTHER))
    store.begin_run(HASH, ENVIRONMENT)
    for spec in (DONE, OTHER):
        for name in EVALUATION.units:
            store.record_unit(unit(spec, name))
    return store


def test_what_is_written_on_a_run_is_told_of_it(store: Store) -> None:
    store.annotate_runs({HASH: RunAnnotations(tags=("two  words", "best", "best"), note=" keep this ", pinned=True)})
    details = store.run_details()
    assert details[HASH][:3] == ("best, two words", "keep this", True)
    assert details[HASH].studies == "a study"
    assert details[HASH].hardware == ENVIRONMENT.hardware
    assert details[OTHER.content_hash()][:3] == ("", "", False)


def test_a_tag_with_a_comma_and_an_unknown_run_are_refused(store: Store) -> None:
    with pytest.raises(WinaError, match='"a,b" has one; write it as two tags'):
        store.annotate_runs({HASH: RunAnnotations(tags=("a,b",))})
    with pytest.raises(WinaError, match="has no run nothing"):
        store.annotate_runs({"nothing": RunAnnotations()})
    assert store.run_details()[HASH].tags == ""


def test_tags_that_another_window_has_changed_since_they_were_seen_stay_so(store: Store) -> None:
    seen = {HASH: RunAnnotations(tags=("old", "wrong"))}
    store.annotate_runs({HASH: RunAnnotations(tags=("old", "theirs"))}, ("tags",))
    mine = {HASH: RunAnnotations(tags=("mine", "old"))}
    store.annotate_runs(mine, ("tags",), seen)
    assert store.run_details()[HASH].tags == "mine, old, theirs"
    store.annotate_runs(seen, ("tags",), mine)
    assert store.run_details()[HASH].tags == "old, theirs, wrong", "undone, as far as it was done here"


def test_a_deleted_run_is_in_no_list_until_it_is_restored(store: Store) -> None:
    def listed() -> tuple[object, ...]:
        return store.metric_rows(), store.runs(), store.studies(), store.run_specs(study().content_hash())

    before = listed()
    store.delete_runs([HASH])
    assert {row.run for row in store.metric_rows()} == {OTHER.content_hash()}
    assert [row.run for row in store.runs()] == [OTHER.content_hash()]
    assert [(row.runs_done, row.runs_total) for row in store.studies()] == [(1, 1)]
    assert list(store.run_specs(study().content_hash())) == [OTHER.content_hash()]
    assert HASH not in store.run_details()
    assert [row.run for row in store.deleted_runs()] == [HASH]
    store.restore_runs([HASH])
    assert listed() == before
    assert store.deleted_runs() == []


def test_numbers_of_a_deleted_run_are_not_taken_over_but_computed_again(store: Store) -> None:
    longer = DONE.model_copy(update={"evaluation": EVALUATION.model_copy(update={"tasks": ("choice", "second")})})
    assert [pending.units for pending in store.pending([longer])] == [("second",)]
    store.delete_runs([HASH])
    assert [pending.units for pending in store.pending([longer])] == [(FIDELITY, "choice", "second")]
    assert [pending.units for pending in store.pending([DONE])] == [DONE.evaluation.units]
    store.save_study(study("again"), (DONE,))
    assert store.run_status(HASH) == "queued"
    assert [pending.units for pending in store.pending([DONE])] == [DONE.evaluation.units]
    assert store.deleted_runs() == []
    store.restore_runs([HASH])
    assert {row.run for row in store.metric_rows()} == {OTHER.content_hash()}, "its old numbers are gone"


def test_what_is_being_computed_is_not_deleted(store: Store) -> None:
    store.save_study(study(), (DONE, run(0.75)))
    with pytest.raises(WinaError, match="1 of the 2 runs wait or are being computed; cancel their job"):
        store.delete_runs([HASH, run(0.75).content_hash()])
    assert store.deleted_runs() == []


def test_erased_runs_are_gone_with_all_that_belongs_to_them_and_leave_their_place(store: Store) -> None:
    assert store.run_details()[OTHER.content_hash()].rotation == ""
    store.delete_runs([OTHER.content_hash()])
    assert [store.purge_deleted(), store.purge_deleted()] == [1, 0]
    assert store.deleted_runs() == []
    with store._engine.connect() as connection:
        tables = ("runs", "units", "metrics", "layer_stats", "study_runs")
        counts = [connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one() for table in tables]
    assert counts == [1, 2, 2, 8, 1]
    rotated = run(0.25, FREE_ROTATION)
    store.save_study(study(), (DONE, rotated))
    assert store.run_details()[rotated.content_hash()].rotation == rotation_details(FREE_ROTATION)


@pytest.mark.parametrize(
    ("rotation", "words"),
    [
        (NO_ROTATION, ""),
        (RotationSpec(mode="per_site", attention_basis=("k",), mlp_basis=("gate",), per_head=False),
         "per_site, attention k, mlp gate"),
        (FREE_ROTATION,
         "global, sites weighted by sensitivity, per head, norms folded (exact), refined on error, 300 steps, "
         "reads 32,768 tokens of "
         + FREE_ROTATION.text.label),
    ],
)  # fmt: skip
def test_the_details_of_a_rotation_leave_nothing_out(rotation: RotationSpec, words: str) -> None:
    assert rotation_details(rotation).replace(f"{rotation.steps} steps", "300 steps") == words
