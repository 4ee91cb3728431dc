"""A restart restores pages, forms, selections, docks and the place of the window."""

import pytest
from wina_app.application import Application
from wina_app.services.threads import EngineThread
from wina_app.window.remembered_state import ViewStates

from tests.wina_app.conftest import close
from tests.wina_app.fakes import FakeClient
from tests.wina_app.stored_runs import SOURCE, summary
from tests.wina_app.tour import settle


@pytest.fixture
def start(qtbot, qapp):
    """Start the window, with every page made and a model open; close each that was started."""
    started = []

    def make() -> Application:
        application = Application(qapp, engine=EngineThread(FakeClient))
        started.append(application)
        application.start()
        application.workbench.workspace.set_model(SOURCE, summary())
        settle()
        return application

    yield make
    for application in started:
        if not application.window.has_stopped:
            close(qtbot, application)


def _change(application: Application) -> None:
    window = application.window
    evaluate = window.pages["evaluate"]
    evaluate.name.setText("Mine")
    evaluate.tasks.limit.setValue(7)
    evaluate.tasks.set_ticks({"piqa": True, "arc_easy": False})
    evaluate.configurations.sparsities.setText("30, 45")
    for boxes in (evaluate.configurations.methods, evaluate.configurations.rotations):
        for box in boxes:
            box.setChecked(not box.isChecked())
    model = window.pages["model"]
    model.location.setText(SOURCE.location)
    model.dtype.setCurrentIndex(1)
    model.cost.context.setValue(4096)
    sparsity = window.pages["sparsity"]
    sparsity.toolbar.allocator.setCurrentIndex(2)
    sparsity.toolbar.budget.setValue(35.0)
    sparsity.editor.keep.click()
    sparsity.heatmap.set_selection(sparsity.heatmap.selection.click((1, 2)))
    window.docks["help"].show()
    window.dock_area.toggle()
    window.show_page("evaluate")
    settle()


@pytest.mark.nightly  # by day test_remembered_views.py restores a form, and each page's tests its own
@pytest.mark.all_pages
def test_a_restart_restores_everything(start, qtbot):
    first = start()
    _change(first)
    window = first.window
    before = {key: page.view_state() for key, page in window.pages.items()}
    collapsed = window.dock_area.is_collapsed
    close(qtbot, first)
    second = start().window
    after = {key: page.view_state() for key, page in second.pages.items()}
    for key, state in before.items():
        assert after[key] == state, key
    assert second.current_page.key == "evaluate"
    assert second.pages["evaluate"].tasks.limit.value() == 7
    assert second.pages["sparsity"].editor.keep.isChecked()
    assert second.pages["sparsity"].heatmap.selection.cells == {(1, 2)}
    assert second.docks["help"].isVisible()
    assert second.dock_area.is_collapsed == collapsed


@pytest.mark.nightly  # by day test_remembered_views.py restores a form, and each page's tests its own
@pytest.mark.all_pages
def test_damaged_views_change_nothing_and_no_page_fails(application, caplog):
    pages, settings = application.window.pages, application.workbench.settings
    application.workbench.workspace.set_model(SOURCE, summary())
    settle()
    before = {key: page.view_state() for key, page in pages.items()}
    caplog.clear()
    for damage in (None, -7, "nonsense", [], {"0": [1]}):
        settings.views = {key: dict.fromkeys(state, damage) for key, state in before.items()}
        for page in pages.values():
            ViewStates(settings).restore(page)
        settle()
    assert not [record.message for record in caplog.records if "not restored" in record.message]
    evaluate = pages["evaluate"]
    assert evaluate.tasks.ticks() == before["evaluate"]["tasks"]
    assert evaluate.tasks.limit.value() == before["evaluate"]["limit"]
