"""Plans beside the one that is edited: saved, shared, compared; without a widget."""

import pytest
from wina_app.pages.sparsity.controller import SparsityController
from wina_app.pages.sparsity.plan_library import PlanLibrary
from wina_app.pages.sparsity.presets import PRESETS

from tests.wina_app.fakes import Recorded, load, make_workbench
from tests.wina_app.stored_runs import layout, record_run, run_spec, summary
from wina_core.specs import NO_ROTATION, BitsPlan, ModelSource, QuantizationSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.studies.expand import load_study

OTHER = SparsityPlan.uniform(layout(), 0.3)


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    """(library, view, page, workspace, store), with a model open; `page` is what the map is shown on."""
    workbench, _, store = make_workbench(tmp_path)
    view, page = Recorded(), Recorded()
    sparsity = SparsityController(workbench.workspace, store, page)
    library = PlanLibrary(workbench.workspace, store, view, sparsity)
    library.choices_changed.connect(view.show_choices)
    load(workbench)
    yield library, view, page, workbench.workspace, store
    store.store.close()


def choices(view):
    return view.last("show_choices")


def test_a_plan_is_saved_under_a_name_loaded_and_forgotten(bench):
    library, view, _, workspace, _ = bench
    first = workspace.plan
    library.save(" halves ")
    assert [row.name for row in choices(view).saved] == ["halves"]
    library.use_preset(PRESETS[0], 0.25)
    assert workspace.plan == SparsityPlan.uniform(layout(), 0.25)
    library.load("halves")
    assert workspace.plan == first
    library.delete("halves")
    assert not choices(view).saved
    library.load("halves")
    assert "no saved sparsity plan called 'halves'" in view.last("show_error")
    library.save("  ")
    assert "needs a name" in view.last("show_error")


def test_bits_are_saved_copied_and_opened_with_their_plan(bench):
    library, _, _, workspace, _ = bench
    bits = QuantizationSpec(quantizer="rtn", bits=BitsPlan.uniform(layout(), 4).with_cells({(0, 0): 8}))
    workspace.set_quantization(bits)
    library.save("four")
    text = library.text()
    workspace.set_quantization("int8")
    library.load("four")
    assert workspace.quantization == bits
    workspace.set_quantization("none")
    library.paste(text)
    assert workspace.quantization == bits


def test_a_saved_plan_of_another_model_is_refused_with_what_it_was_made_for(bench):
    library, view, page, workspace, store = bench
    store.store.save_plan("other", SparsityPlan.uniform(layout(4), 0.5))
    before = workspace.plan
    library.load("other")
    assert "was made for a model with 4 layers" in page.last("show_error")
    library.compare_saved("other")
    assert "was made for a model with 4 layers" in view.last("show_error")
    assert workspace.plan == before


def test_a_plan_goes_by_text_and_nonsense_is_refused(bench):
    library, view, _, workspace, _ = bench
    library.use_preset(PRESETS[2], 0.5)
    copied, plan = library.text(), workspace.plan
    library.use_preset(PRESETS[0], 0.25)
    library.paste(copied)
    assert workspace.plan == plan
    for text, said in (("", "holds no text"), ("{}", "no sparsity plan"), ("x" * 5_000_000, "more than 4 MiB")):
        library.paste(text)
        assert said in view.last("show_error")
        assert workspace.plan == plan


def test_a_study_of_the_plan_is_a_file_that_runs_anywhere(bench, tmp_path):
    library, view, _, workspace, _ = bench
    library.save_study(tmp_path / "mine.toml")
    study = load_study(tmp_path / "mine.toml")
    assert study.name == "mine"
    assert study.plans == (workspace.plan,)
    assert (study.configurations[0].rotation, study.configurations[0].method) == (workspace.rotation, workspace.method)
    assert view.last("show_saved") == tmp_path / "mine.toml"


def test_comparing_shows_the_difference_and_the_others_figures(bench):
    library, view, page, workspace, store = bench
    store.store.save_plan("low", OTHER)
    library.compare_saved("low")
    assert page.last("show_map") == "change"
    assert choices(view).compared == "low, 30.0 %"
    assert both(page)[1].budget == pytest.approx(0.3)
    assert both(page)[0].budget == pytest.approx(workspace.plan.budget)
    library.stop_comparing()
    assert page.last("show_map") == "target"
    assert both(page)[1] is None
    assert not choices(view).compared


def both(page):
    """The figures of the plan and of the one that it is compared with, as shown last."""
    return next(args for name, args, _ in reversed(page._calls) if name == "show_figures")


def test_the_plan_before_the_last_change_and_the_last_allocation_can_be_compared_with(bench):
    library, view, page, _, _ = bench
    assert (choices(view).before, choices(view).allocated) == (False, False)
    library.use_preset(PRESETS[0], 0.25)
    assert choices(view).before
    library.compare_before()
    assert both(page)[1].budget == pytest.approx(0.5)
    library.remember_allocated(OTHER)
    library.compare_allocated()
    assert both(page)[1].budget == pytest.approx(0.3)


def test_a_drag_is_one_change(bench):
    library, _, page, _, _ = bench
    editing = library._editing
    editing.begin_gesture()
    for value in (0.6, 0.7, 0.8):
        editing.paint(frozenset({(0, 0)}), value)
    editing.end_gesture()
    library.compare_before()
    assert both(page)[1].budget == pytest.approx(0.5)


def test_the_plans_of_stored_runs_can_be_compared_with(bench):
    library, view, page, _, store = bench
    record_run(store.store, run_spec("teal", NO_ROTATION, 0.65))
    library.refresh()
    (run,) = choices(view).runs
    library.compare_run(run)
    assert both(page)[1].budget == pytest.approx(0.65)
    assert choices(view).compared.startswith("teal: uniform 65.0 %")


def test_another_model_ends_the_comparison(bench):
    library, view, page, workspace, _ = bench
    library.remember_allocated(OTHER)
    library.compare_allocated()
    workspace.set_model(ModelSource(location="/models/other"), summary(4))
    assert page.last("show_map") == "target"
    assert both(page)[1] is None
    assert (choices(view).compared, choices(view).allocated) == ("", False)
