"""Plans beside the one that is edited: saved, shared, compared; without a widget."""

import pytest
from PySide6.QtWidgets import QInputDialog
from wina_app.pages.sparsity.presets import PRESETS

from tests.wina_app.pages.sparsity.sparsity_pages import command, open_page
from tests.wina_app.stored_runs import SOURCE, layout, record_run, run_spec, summary
from wina_core.specs import NO_ROTATION, BitsPlan, ModelSource, QuantizationSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.studies.expand import load_study

OTHER = SparsityPlan.uniform(layout(), 0.3)


@pytest.fixture
def bench(qtbot, qapp, store):
    """(library, page, workspace, database), with a model open."""
    page = open_page(qtbot, qapp, store)
    page.workspace.set_model(SOURCE, summary())
    return page.library, page, page.workspace, store


def compared(page) -> str:
    """Return the plan's budget with its difference to that of the compared plan."""
    return page.figures.text("budget")


def test_a_plan_is_saved_under_a_name_with_its_bits_loaded_and_forgotten(bench, monkeypatch):
    library, page, workspace, _ = bench
    first = workspace.plan
    bits = QuantizationSpec(quantizer="rtn", bits=BitsPlan.uniform(layout(), 4).with_cells({(0, 0): 8}))
    workspace.set_quantization(bits)
    monkeypatch.setattr(QInputDialog, "getItem", lambda *_: (" halves ", True))
    command(page, "Save the plan under a name").trigger()
    assert [row.name for row in library.saved] == ["halves"]
    library.use_preset(PRESETS[0], 0.25)
    workspace.set_quantization("int8")
    assert workspace.plan == SparsityPlan.uniform(layout(), 0.25)
    (load,) = library._load.actions()
    load.trigger()
    assert (workspace.plan, workspace.quantization) == (first, bits)
    (delete,) = library._delete.actions()
    delete.trigger()
    assert not library.saved
    library.load("halves")
    assert "no saved sparsity plan called 'halves'" in page.message.error
    library.save("  ")
    assert "needs a name" in page.message.error


def test_a_saved_plan_of_another_model_is_refused_with_what_it_was_made_for(bench):
    library, page, workspace, store = bench
    store.save_plan("other", SparsityPlan.uniform(layout(4), 0.5))
    before = workspace.plan
    for use in (library.load, library.compare_saved):
        page.clear_message()
        use("other")
        assert "was made for a model with 4 layers" in page.message.error
    assert workspace.plan == before


def test_a_plan_goes_by_text_and_nonsense_is_refused(bench):
    library, page, workspace, _ = bench
    library.use_preset(PRESETS[2], 0.5)
    copied, plan = library.text(), workspace.plan
    library.use_preset(PRESETS[0], 0.25)
    library.paste(copied)
    assert workspace.plan == plan
    for text, said in (("", "holds no text"), ("{}", "no sparsity plan"), ("x" * 5_000_000, "more than 4 MiB")):
        library.paste(text)
        assert said in page.message.error
        assert workspace.plan == plan


def test_a_study_of_the_plan_is_a_file_that_runs_anywhere(bench, tmp_path):
    library, _, workspace, _ = bench
    library.save_study(tmp_path / "mine.toml")
    study = load_study(tmp_path / "mine.toml")
    assert study.name == "mine"
    assert study.plans == (workspace.plan,)
    assert (study.configurations[0].rotation, study.configurations[0].method) == (workspace.rotation, workspace.method)


def test_comparing_shows_the_difference_in_map_and_read_outs(bench):
    library, page, workspace, store = bench
    store.save_plan("low", OTHER)
    library.compare_saved("low")
    assert page.toolbar.map.currentData() == "change"
    assert (library.compared, compared(page)) == ("low, 30.0 %", "50.0 % (+20.0)")
    command(page, "Stop comparing").trigger()
    assert page.toolbar.map.currentData() == "target"
    assert (library.compared, compared(page)) == ("", "50.0 %")
    assert not command(page, "Stop comparing").isEnabled()
    record_run(store, run_spec("teal", NO_ROTATION, 0.65))
    library.refresh()
    (run,) = library.runs
    library.compare_run(run)
    assert library.compared.startswith("teal: uniform 65.0 %")
    library.remember_allocated(OTHER)
    workspace.set_model(ModelSource(location="/models/other"), summary(4))
    assert page.toolbar.map.currentData() == "target"
    assert (library.compared, compared(page)) == ("", "50.0 %")
    assert not command(page, "Compare with the last allocation").isEnabled()
