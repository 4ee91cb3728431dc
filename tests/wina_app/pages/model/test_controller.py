"""Opening models, against a view that only remembers."""

import pytest
from wina_app.pages.model.controller import ModelController
from wina_app.pages.model.cost_panel import cost_table
from wina_app.pages.model.page import ModelPage

from tests.wina_app.fakes import Recorded, done, load, make_workbench, result
from tests.wina_app.stored_runs import layout, shape, summary
from wina_core.jobs import Cancel, Done, InspectJob, Progress
from wina_core.model_info.cost.cost import costs
from wina_core.model_info.resolve import resolve
from wina_core.records import CostRow
from wina_core.specs import MethodSpec, ModelSource
from wina_core.specs.plans import UniformSparsity


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(ModelPage)
    yield ModelController(workbench, view), view, workbench, engine
    store.store.close()


def test_a_model_is_resolved_loaded_and_put_into_the_workspace(bench):
    controller, view, workbench, engine = bench
    controller.open("demo", "float32")
    source = resolve(ModelSource(location="demo", dtype="float32"))
    assert engine.last.job == InspectJob(model=source)
    engine.answer(result(summary()), done())
    assert (workbench.workspace.source, workbench.workspace.summary) == (source, summary())
    assert view.last("show_summary") == "demo"
    assert view.last("show_loading") is None
    assert view.last("show_recent") == ["demo"]
    assert workbench.workspace.plan.budget == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("location", "problem"),
    [("/nowhere/at all", "/nowhere/at all does not exist"), ("   ", "No model is named; choose a folder")],
)
def test_a_missing_folder_and_nothing_typed_are_errors_in_place_and_load_nothing(bench, location, problem):
    controller, view, workbench, engine = bench
    controller.open(location)
    assert problem in view.last("show_error")
    assert not engine.submitted
    assert workbench.workspace.source is None


def test_a_load_that_another_one_replaces_is_given_up_without_a_word(bench):
    controller, view, workbench, engine = bench
    controller.open("demo")
    first = engine.last.job_id
    controller.open("demo", "float32")
    assert Cancel(job_id=first) in engine.sent
    workbench.jobs.apply(Done(job_id=first, cancelled=True))
    assert view.calls("show_notice") == []
    engine.answer(lambda job_id: Progress(job_id=job_id, done=5, total=20, unit="bytes", metric="reading weights"))
    assert (view.last("show_loading").id, view.last("show_loading").fraction) == (engine.last.job_id, 0.25)
    engine.answer(result(summary()), done())
    assert workbench.workspace.source.dtype == "float32"


def test_a_refused_folder_hides_neither_the_open_model_nor_one_that_is_being_loaded(bench, tmp_path):
    controller, view, workbench, engine = bench
    load(workbench)
    controller.open("demo")
    loading = engine.last.job_id
    controller.open(str(tmp_path))
    assert "has no config.json" in view.last("show_error")
    assert Cancel(job_id=loading) not in engine.sent
    assert workbench.workspace.loading == "demo"
    engine.answer(done(cancelled=True))
    controller.open(str(tmp_path))
    assert workbench.workspace.loading == ""
    assert workbench.workspace.summary == summary()
    assert workbench.workspace.breadcrumb()[0] == ("model", "demo-llama")


WINA = MethodSpec(name="wina")


def test_costs_are_those_of_the_loaded_model_its_quantization_and_its_rotations(bench):
    controller, view, workbench, _ = bench
    controller.price(WINA, 0.5, 2048)
    assert not view.calls("show_cost"), "nothing is loaded"
    source = ModelSource(location="/models/x", quantization="int8")
    load(workbench, source, summary().model_copy(update={"rotations": ("none", "global")}))
    controller.price(WINA, 0.5, 512)
    record = view.last("show_cost")
    assert [row.rotation for row in record.rows] == ["dense", "none", "global"]
    assert (record.quantization, record.context, record.target_sparsity) == ("int8", 512, 0.5)


def test_a_sparsity_out_of_reach_has_a_reason_instead_of_a_cost(bench):
    controller, view, workbench, _ = bench
    load(workbench)
    controller.price(MethodSpec(name="nothing"), 0.5, 512)
    assert view.last("show_cost") is None
    load(workbench, model=summary().model_copy(update={"shape": None}))
    controller.price(WINA, 0.5, 512)
    assert view.last("show_cost") is None


def test_the_table_has_every_number_in_one_unit_and_the_warning_where_it_belongs():
    record = costs(shape(), WINA, UniformSparsity(sparsity=0.05), context=512)
    table = cost_table(record)
    assert table.heads[1] == "Gated\nMFLOPs"
    assert [line[0] for line in table.lines] == [
        "Dense", "No rotation", "Global", "Per layer", "Per site, as published",
    ]  # fmt: skip
    assert table.warned == (False, False, False, True, True)
    dense, none = table.lines[0], table.lines[1]
    assert dense[1] == f"{2 * (sum(map(sum, layout().parameters)) + 1_048_576) / 1e6:.1f}"
    assert float(none[5]) < float(dense[5])
    assert "global rotation" in table.tips[4]
    assert table.lines[4][9].startswith("\N{MINUS SIGN}")
    assert dense[10] == "16.0"
    assert float(dense[11]) > 0
    assert "16.0 bits read and 16.0 held per gated weight" in table.tips[0]


def row(rotation: str, **figures: float) -> CostRow:
    """A line of which only the given figures are not 0."""
    names = [name for name, field in CostRow.model_fields.items() if field.annotation is float]
    return CostRow(rotation=rotation, shortcut_weights=0, terms=(), **dict.fromkeys(names, 0.0) | figures)


def test_every_page_that_wants_a_model_says_that_one_is_being_loaded(application, qtbot):
    window, workbench = application.window, application.workbench
    wanting = [window.pages[key] for key in ("rotation", "sparsity", "evaluate", "playground")]

    def said():
        return {(page._empty.heading.text(), page._crumbs.accessibleName()) for page in wanting}

    before = said()
    application.model.open("demo")
    assert {title for title, _ in said()} == {"demo is being loaded…"}
    assert workbench.workspace.breadcrumb() == [("model", "loading demo…")]
    qtbot.waitUntil(lambda: len(workbench.jobs.active) == 1)
    application.model.cancel()
    qtbot.waitUntil(lambda: not workbench.jobs.active)
    assert said() == before
    application.model.open("/no/such/folder")
    qtbot.waitUntil(window.pages["model"].message.isVisible)
    assert said() == before
