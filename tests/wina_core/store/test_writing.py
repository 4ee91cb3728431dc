"""Writing to the store: results come back once, and whole."""

import math
import time

import pytest

from tests.wina_core.samples import ENVIRONMENT, LAYOUT, run, study, unit
from wina_core.errors import WinaError
from wina_core.records import (
    LayerRecord,
    MetricRecord,
    RotationCandidate,
    RotationChoice,
    RotationReport,
    SampleRecord,
    SiteSpectrum,
)
from wina_core.specs import AUTO_ROTATION, FIDELITY, NO_ROTATION, EvaluationSpec, RotationSpec, RunSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.store import Store
from wina_core.store.metric_frames import metric_rows_of


def test_a_study_queues_its_runs_once_and_comes_back(store: Store) -> None:
    runs = (run(0.5), run(0.25))
    for _ in range(2):
        name = store.save_study(study(), (*runs, run(0.5)))
    assert name == study().content_hash()
    assert len(store.studies()) == 1
    assert store.study_spec(name) == study()
    assert [(row.run, row.status, row.units_done, row.units_total) for row in store.runs(name)] == [
        (spec.content_hash(), "queued", 0, 2) for spec in runs
    ]
    assert store.run_spec(runs[1].content_hash()) == runs[1]
    assert [pending.units for pending in store.pending(runs)] == [(FIDELITY, "choice")] * 2
    nothing = run().model_copy(update={"evaluation": EvaluationSpec(fidelity=None)})
    store.save_study(study("nothing to measure"), (nothing,))
    assert store.run_status(nothing.content_hash()) == "done"


def test_two_programs_may_compute_the_same_run_which_is_stored_once(address: str) -> None:
    spec = run()
    with Store(address) as first, Store(address) as second:
        first.launch(study(), (spec,), first.pending((spec,)))
        first.begin_run(spec.content_hash(), ENVIRONMENT)
        second.launch(study(), (spec,), second.pending((spec,)))
        assert second.run_status(spec.content_hash()) == "running"
        for store in (second, first):
            store.begin_run(spec.content_hash(), ENVIRONMENT)
            for name in spec.evaluation.units:
                store.record_unit(unit(spec, name))
        assert [(row.status, row.units_done) for row in first.runs()] == [("done", 2)]
        assert len(first.metric_rows()) == 2


@pytest.mark.parametrize("end", ["killed", "failed", "queued"])
def test_a_complete_run_that_is_computed_anew_stays_done_however_that_ends(address: str, end: str) -> None:
    spec = run()
    with Store(address) as store:
        store.save_study(study(), (spec, run(0.25)))
        for name in spec.evaluation.units:
            store.record_unit(unit(spec, name))
        store.begin_run(spec.content_hash(), ENVIRONMENT)
        store.begin_run(run(0.25).content_hash(), ENVIRONMENT)
        if end != "killed":
            for one in (spec, run(0.25)):
                store.finish_run(one.content_hash(), "failed", "An accelerator went away.")
    with Store(address) as store:
        if end == "queued":
            store.save_study(study(), (spec, run(0.25)))
        first, second = store.runs()
        assert (first.status, first.error) == ("done", "")
        assert first.finished is not None
        assert second.status == {"killed": "interrupted"}.get(end, end)


@pytest.fixture
def saved(store: Store) -> RunSpec:
    """A run whose study is saved."""
    store.save_study(study(), (run(),))
    return run()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, 5e-324, 0.1 + 0.2])
def test_a_unit_that_arrives_again_replaces_itself_and_every_float_survives(
    store: Store, saved: RunSpec, value: float
) -> None:
    store.record_unit(unit(saved))
    layers = (LayerRecord(layer=0, projection="q", metric="sparsity", value=value),)
    store.record_unit(unit(saved, value=value).model_copy(update={"layers": layers}))
    (row,) = store.metric_rows()
    layer_map = store.layer_map(saved.content_hash())
    assert layer_map is not None
    ((cell,),) = layer_map.values
    assert (row.value, cell) == pytest.approx((value, value), rel=0, abs=0, nan_ok=True)


@pytest.mark.parametrize(("n", "stderr"), [(5, None), (6, 0.1), (None, 0.1)])
def test_the_error_of_few_documents_is_hidden_in_every_list(
    store: Store, saved: RunSpec, n: int | None, stderr: float | None
) -> None:
    metrics = (MetricRecord(task="choice", metric="acc", value=0.5, stderr=0.1, n=n),)
    store.record_unit(unit(saved).model_copy(update={"metrics": metrics}))
    (row,), (listed,) = store.metric_rows(), metric_rows_of(store.metrics())
    assert (row.stderr, listed.stderr) == (stderr, stderr)


def test_an_unknown_run_is_refused_and_nothing_is_kept(store: Store) -> None:
    spec = run()
    for attempt in (
        lambda: store.record_unit(unit(spec)),
        lambda: store.begin_run(spec.content_hash(), ENVIRONMENT),
        lambda: store.finish_run(spec.content_hash(), "failed"),
    ):
        with pytest.raises(WinaError, match=f"has no run {spec.content_hash()}; save its study before"):
            attempt()
    assert store.metric_rows() == []


def test_what_auto_has_chosen_comes_back_and_names_the_rotation_of_its_runs(store: Store) -> None:
    automatic = run(0.5).model_copy(update={"rotation": AUTO_ROTATION})
    other = run(0.25)
    store.save_study(study(), (automatic, other))
    for spec in (automatic, other):
        store.record_unit(unit(spec))
    assert {row.rotation for row in store.metric_rows()} == {"auto", other.rotation.label}
    candidates = tuple(
        RotationCandidate(
            rotation=rotation, kl=kl, stderr=0.01, change=kl - 0.5, change_stderr=0.01, seconds=1, rows=(kl, kl)
        )
        for rotation, kl in ((NO_ROTATION, 0.5), (RotationSpec(text=AUTO_ROTATION.text), 0.4))
    )
    report = RotationReport(
        rotation=AUTO_ROTATION.content_hash(),
        logits_deviation=0.0,
        residuals=(),
        shortcut_parameters=0,
        seconds=2.5,
        choice=RotationChoice(sparsity=0.5, text="a text", candidates=candidates, chosen=1, seconds=9),
        spectra=(SiteSpectrum(layer=2, site="down", directions=(1, 3, 9), cumulative=(0.25, 0.9, 1.0)),),
    )
    store.record_rotation(automatic.model, AUTO_ROTATION, report)
    assert [row.report for row in store.rotations(automatic.model)] == [report]
    named = {row.run: row.rotation for row in store.metric_rows()}
    assert named == {
        automatic.content_hash(): "auto: global + heads",
        other.content_hash(): other.rotation.label,
    }
    assert set(store.metrics().rotation) == set(named.values())
    assert store.run_details()[automatic.content_hash()].rotation == "auto: global + heads"


def test_plans_are_kept_by_name(store: Store) -> None:
    plan = SparsityPlan.uniform(LAYOUT, 0.5)
    store.save_plan("half", plan)
    store.save_plan("mine 😀", plan.with_cells({(0, 1): 0.9}))
    store.save_plan("half", plan.with_cells({(0, 1): 0.1}))
    assert [(row.name, row.provenance) for row in store.list_plans()] == [("half", "edited"), ("mine 😀", "edited")]
    assert store.load_plan("half").plan.sparsity[0] == (0.5, 0.1)
    assert store.list_plans()[1].budget == store.load_plan("mine 😀").plan.budget
    with pytest.raises(WinaError, match="There is no saved sparsity plan called 'gone'; choose one of the saved plans"):
        store.load_plan("gone")


def test_the_documents_of_a_task_are_stored_with_it_and_missed_where_they_were_not_asked_for(store: Store) -> None:
    samples = (
        SampleRecord(task="choice", doc=0, scores={"acc": (1.0, 1.0)}, target="0", response="[-1.5, -2.0]"),
        SampleRecord(task="choice", doc=1, scores={"acc": (0.0, 1.0), "ppl": (-9.5, 4.0)}, target="1", response="[]"),
    )
    with_them, without = run(0.5), run(0.25)
    store.save_study(study(), (with_them, without))
    for spec in (with_them, without):
        store.record_unit(unit(spec))
        store.record_unit(unit(spec, FIDELITY))
    assert store.pending((with_them, without)) == []
    store.record_unit(unit(with_them).model_copy(update={"samples": samples}))
    assert store.samples(with_them.content_hash(), "choice") == list(samples)
    assert store.samples(without.content_hash(), "choice") == []
    assert [(pending.spec, pending.units) for pending in store.pending((with_them, without), samples=True)] == [
        (without, ("choice",))
    ]


def test_a_name_with_half_a_character_is_refused_in_a_sentence(store: Store) -> None:
    plan = SparsityPlan.uniform(LAYOUT, 0.5)
    for use in (lambda: store.save_plan("a\ud800", plan), lambda: store.load_plan("a\ud800")):
        with pytest.raises(WinaError, match=r"^'a\\ud800' has characters that no text can have; leave them out\.$"):
            use()
    store.save_plan("'; DROP TABLE plans; -- \N{GRINNING FACE}\0" + "n" * 300, plan)
    assert store.load_plan(store.list_plans()[0].name).plan == plan


def test_what_another_program_writes_is_news(address: str) -> None:
    with Store(address) as first, Store(address) as second:
        assert not first.has_news()
        second.save_plan("theirs", SparsityPlan.uniform(LAYOUT, 0.5))
        until = time.monotonic() + 120
        while not (news := first.has_news()) and time.monotonic() < until:
            time.sleep(0.02)
        assert news
        assert not first.has_news()
