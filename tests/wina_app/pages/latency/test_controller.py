"""From the Latency page's choice to a job, and from points that land to what is shown."""

import pytest
from wina_app.pages.latency.controller import LatencyController, summary
from wina_app.pages.latency.page import LatencyPage

from tests.wina_app.fakes import Recorded, done, load, make_workbench, result
from tests.wina_app.timed_points import ELSEWHERE, HERE, decoded, timed
from wina_core.jobs import Cancel, DecodeJob, Failed, LatencyJob, Measured, Pause, Resume
from wina_core.records import SweepReport
from wina_core.specs import MethodSpec, RotationSpec
from wina_core.specs.latency import DecodeSpec, LatencySpec, Shape

SPEC = LatencySpec(
    shapes=(Shape(outputs=64, inputs=48),),
    batches=(1,),
    dense_products=(),
    sparsities=(0.25, 0.5),
    dtypes=("float32",),
    methods=("dense", "wina"),
)
LOCAL = ("cpu", HERE.hardware)


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(LatencyPage, make_spec=SPEC, measures_again=False)
    yield LatencyController(workbench, view), view, workbench, engine, store
    store.store.close()


def measured(record):
    """For `FakeEngine.answer`."""
    return lambda job_id: Measured(job_id=job_id, record=record)


def charted(view):
    """Names and sparsities of the lines that were drawn last."""
    return [(line.name, line.x) for line in view.last("show_chart").lines]


def test_what_is_stored_of_this_machine_is_shown_as_soon_as_the_page_is(bench):
    controller, view, _, _, store = bench
    assert view.last("show_offer").machines == ()
    store.store.record_latency(timed())
    store.store.record_latency(timed(ELSEWHERE, outputs=32))
    controller.set_visible(True)
    offer = view.last("show_offer")
    assert (offer.machine, offer.subject, offer.load) == (LOCAL, (64, 48), 1)
    assert charted(view) == [("wina", (50.0,))]
    assert [entry.machine[1] for entry in controller.table.shown] == [HERE.hardware]
    controller.pick("machine", ("cuda", "a GPU"))
    assert view.last("show_offer").subject == (32, 48)
    assert [entry.machine[1] for entry in controller.table.shown] == ["a GPU"]


def test_the_count_is_that_of_the_job(bench):
    controller, view, _, _, store = bench
    store.store.record_latency(timed(method="dense"))
    controller.set_visible(True)
    controller.count()
    assert view.last("show_problems") == {}
    assert (view.last("show_count").missing, view.last("show_count").points) == (2, 3)
    assert view.named("show_count") == {"active": False, "budget_seconds": None}
    view.returns(measures_again=True)
    controller.count()
    assert view.last("show_count").missing == 3
    controller.measure()
    assert controller._workbench.jobs.active[0].job.stored == {}, "nothing is left out"


def test_a_sweep_that_is_too_large_is_refused_with_its_size(bench):
    controller, view, _, engine, _ = bench
    view.returns(make_spec=SPEC.model_copy(update={"batches": tuple(range(1, 16385))}))
    controller.count()
    assert "more than 20,000" in view.last("show_problems")["points"]
    assert not view.calls("show_count")
    controller.measure()
    assert "more than 20,000" in view.last("show_error")
    assert not engine.submitted


def test_an_answer_of_the_store_that_comes_late_does_not_replace_a_later_choices(bench, monkeypatch):
    controller, view, _, _, store = bench
    waiting = []
    monkeypatch.setattr(store, "ask", lambda question, answer, _refused: waiting.append((question, answer)))
    controller.count()
    view.returns(make_spec=SPEC.model_copy(update={"sparsities": (0.65,)}))
    controller.count()
    for question, answer in reversed(waiting):
        answer(question(store.store))
    assert [count.points for count in view.calls("show_count")] == [2]


def test_a_sweep_is_queued_with_what_is_stored_and_points_appear_as_they_land(bench, qtbot):
    controller, view, workbench, engine, store = bench
    store.store.record_latency(timed(method="dense"))
    controller.set_visible(True)
    controller.measure()
    job = engine.last.job
    assert isinstance(job, LatencyJob)
    assert job.spec.shapes[0].label == "64x48"
    assert job.stored == {HERE.key: (timed(method="dense").point.content_hash(),)}
    assert [entry.title for entry in workbench.jobs] == ["Latency of 1 shape: 2 points"]
    engine.answer(measured(timed(sparsity=0.25)))
    qtbot.waitUntil(lambda: charted(view) == [("wina", (25.0,))])
    engine.answer(measured(timed(sparsity=0.5)))
    qtbot.waitUntil(lambda: charted(view) == [("wina", (25.0, 50.0))])
    assert len(store.store.latency_rows()) == 3
    engine.answer(result(SweepReport(environment=HERE, measured=2, stored=1, bandwidth=16.0)), done())
    assert view.last("show_notice") == "2 points measured, 1 stored before; memory bandwidth 16 GB/s."


def test_points_that_land_for_another_shape_are_followed(bench, qtbot):
    controller, view, _, engine, store = bench
    store.store.record_latency(timed())
    controller.set_visible(True)
    controller.measure()
    engine.answer(measured(timed(outputs=128)))
    qtbot.waitUntil(lambda: view.last("show_offer").subject == (128, 48))
    controller.pick("subject", (64, 48))
    engine.answer(measured(timed(outputs=256)))
    qtbot.waitUntil(lambda: len(controller.table.shown) == 3)
    assert view.last("show_offer").subject == (64, 48), "once it was picked it stays"


def test_the_page_shows_the_sweep_that_runs_and_holds_it(bench):
    controller, view, workbench, engine, _ = bench
    assert not view.calls("show_job")
    controller.measure()
    workbench.submit(LatencyJob(spec=SPEC.model_copy(update={"batches": (4,)})), "the next one")
    assert view.last("show_job").title == "Latency of 1 shape: 3 points"
    controller.pause()
    assert isinstance(engine.sent[-1], Pause)
    controller.resume()
    assert isinstance(engine.sent[-1], Resume)
    controller.cancel()
    assert isinstance(engine.sent[-1], Cancel)


def test_the_same_sweep_is_not_queued_twice(bench):
    controller, view, _, engine, _ = bench
    controller.measure()
    controller.measure()
    assert len(engine.submitted) == 1
    controller.count()
    assert view.named("show_count")["active"]
    engine.answer(done())
    controller.count()
    assert not view.named("show_count")["active"]


def test_a_failure_a_cancellation_and_points_left_out_are_told_on_the_page(bench):
    controller, view, workbench, engine, _ = bench
    controller.measure()
    engine.answer(lambda job_id: Failed(job_id=job_id, error="There is no device.", detail="", run=None))
    assert view.last("show_error") == "There is no device."
    controller.measure()
    workbench.cancel(engine.last.job_id)
    assert isinstance(engine.sent[-1], Cancel)
    engine.answer(done(cancelled=True))
    assert view.last("show_notice") == "The measurement was cancelled; finished points are stored."
    report = SweepReport(environment=HERE, measured=1, stored=0, skipped=("2 of 3 points: too large.",))
    assert summary(report) == "1 point measured, 0 stored before. Left out, 2 of 3 points: too large."


def test_decoding_is_that_of_the_other_pages_model_rotation_and_method(bench):
    controller, view, workbench, engine, store = bench
    controller.choose_kind("decoding")
    load(workbench)
    spec = DecodeSpec(
        model=workbench.workspace.source, method=MethodSpec(name="wina"), sparsities=(0.25, 0.5), new_tokens=16
    )
    view.returns(make_spec=spec)
    workbench.workspace.set_rotation(RotationSpec())
    assert view.last("show_context") == workbench.workspace.breadcrumb()
    controller.measure()
    job = engine.last.job
    assert isinstance(job, DecodeJob)
    assert job.spec == spec
    engine.answer(measured(decoded(0.5)))
    controller.read()
    assert charted(view) == [("wina", (50.0,))]
    assert view.last("show_chart").right.title == "tokens/s, p10 to p90"
    for _ in range(2):
        controller.choose_kind("products")
    assert view.calls("show_kind") == ["products", "decoding", "products"], "shown once, its table keeps its selection"
    assert view.last("show_context") == [], "products know no model"
    assert charted(view) == []
    assert len(store.store.decode_rows()) == 1


def test_a_row_of_the_table_brings_its_shape_and_batch_into_the_plots(bench):
    controller, view, _, _, store = bench
    for record in (timed(), timed(batch=4), timed(outputs=128, batch=16)):
        store.store.record_latency(record)
    controller.set_visible(True)
    controller.select(1)
    assert (view.last("show_offer").subject, view.last("show_offer").load) == ((64, 48), 4)
    assert view.named("show_chart")["fresh"]
    controller.select(-1)
    assert view.last("show_offer").load == 4
