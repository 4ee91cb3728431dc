"""Forms and views of the pages, which the next start restores."""

import json
import math

import pytest
from PySide6.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QLineEdit, QSpinBox, QSplitter, QTabWidget, QWidget
from wina_app.application import Application
from wina_app.services.settings import Settings
from wina_app.services.threads import EngineThread
from wina_app.widgets.base_page import Page

from tests.wina_app.conftest import close
from tests.wina_app.fakes import FakeClient
from tests.wina_app.stored_runs import SOURCE, summary
from tests.wina_app.tour import settle

_NAMES = ("mode", "share", "heads", "name", "halves", "number", "tabs")


class _Form(Page):
    def __init__(self) -> None:
        super().__init__("model", "Model")
        self.mode = QComboBox()
        for key in ("global", "per_layer"):
            self.mode.addItem(key.title(), key)
        self.share, self.heads, self.name = QDoubleSpinBox(), QCheckBox(), QLineEdit()
        self.number, self.tabs, self.halves = QSpinBox(), QTabWidget(), QSplitter()
        for _ in range(2):
            self.halves.addWidget(QWidget())
            self.tabs.addTab(QWidget(), "")
        self.set_content(self.halves)
        self.remembered = {name: getattr(self, name) for name in _NAMES}


@pytest.fixture
def form(qtbot):
    def make() -> _Form:
        page = _Form()
        qtbot.addWidget(page)
        return page

    return make


def test_what_was_typed_and_chosen_is_restored(form):
    before, after = form(), form()
    before.mode.setCurrentIndex(1)
    before.share.setValue(12.5)
    before.heads.setChecked(True)
    before.name.setText("halves")
    after.restore_view(json.loads(json.dumps(before.view_state())))
    assert after.view_state() == before.view_state()
    assert after.name.text() == "halves"


@pytest.mark.parametrize(
    "state",
    [
        {"mode": "gone", "share": "12", "heads": 7, "name": None, "halves": [1, "2"]},
        {"mode": {}, "halves": [10**9, 1], "unknown": 1},
        {"mode": 10**40, "share": math.nan, "number": 10**40, "tabs": -1, "halves": [True, True]},
        {"mode": True, "share": 1e300, "number": True, "tabs": 10**40, "halves": [10**40, 1]},
    ],
)
def test_a_damaged_or_older_view_changes_nothing(form, state):
    page, before = form(), form().view_state()
    page.restore_view(json.loads(json.dumps(state)))
    assert page.view_state() == before


def test_a_form_is_remembered_without_a_quit_once_and_a_page_that_fails_costs_only_itself(
    application, monkeypatch, caplog
):
    window, settings = application.window, application.workbench.settings
    window._memory.timeout.emit()
    written = []
    monkeypatch.setattr(Settings, "_save", lambda _: written.append(1))
    window._memory.timeout.emit()
    assert not written
    window.show_page("results")
    window.pages["results"].filter.setText("wina")
    model = window.pages["model"]
    monkeypatch.setattr(model, "view_state", lambda: 1 / 0)
    window._memory.timeout.emit()
    assert written == [1]
    assert (settings.page, settings.views["results"]["filter"]) == ("results", "wina")
    assert settings.views["model"], "as it was stored before"
    monkeypatch.setattr(model, "restore_view", lambda _: 1 / 0)
    window._restore_view(model)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError] * 2
    monkeypatch.undo()


@pytest.mark.nightly
@pytest.mark.all_pages
def test_a_restart_restores_everything(qtbot, qapp):
    def start() -> Application:
        application = Application(qapp, engine=EngineThread(FakeClient))
        application.start()
        application.workbench.workspace.set_model(SOURCE, summary())
        settle()
        return application

    first = start()
    window = first.window
    evaluate, model, sparsity = (window.pages[key] for key in ("evaluate", "model", "sparsity"))
    evaluate.tasks.limit.setValue(7)
    evaluate.tasks.set_ticks({"piqa": True, "arc_easy": False})
    for boxes in (evaluate.configurations.methods, evaluate.configurations.rotations):
        for box in boxes:
            box.setChecked(not box.isChecked())
    model.location.setText(SOURCE.location)
    model.dtype.setCurrentIndex(1)
    sparsity.toolbar.allocator.setCurrentIndex(2)
    sparsity.editor.keep.click()
    sparsity.heatmap.set_selection(sparsity.heatmap.selection.click((1, 2)))
    window.docks["help"].show()
    window.dock_area.toggle()
    window.show_page("evaluate")
    settle()
    before = {key: page.view_state() for key, page in window.pages.items()}
    collapsed = window.dock_area.is_collapsed
    close(qtbot, first)
    again = start()
    second = again.window
    after = {key: page.view_state() for key, page in second.pages.items()}
    for key, state in before.items():
        assert after[key] == state, key
    assert second.current_page.key == "evaluate"
    assert second.pages["sparsity"].heatmap.selection.cells == {(1, 2)}
    assert second.docks["help"].isVisible()
    assert second.dock_area.is_collapsed == collapsed
    close(qtbot, again)
