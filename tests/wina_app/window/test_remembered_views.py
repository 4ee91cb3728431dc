"""Forms and views of the pages, which the next start restores."""

import json
import math
from pathlib import Path

import pytest
from PySide6.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QLineEdit, QSpinBox, QSplitter, QTabWidget, QWidget
from wina_app.services.settings import Settings
from wina_app.widgets.base_page import Page
from wina_app.window.remembered_state import ViewStates

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


def _stored(folder: Path) -> ViewStates:
    return ViewStates(Settings(folder / "window.json"))


def test_the_next_start_restores_what_was_typed_and_chosen(form, tmp_path):
    before, settings = form(), Settings(tmp_path / "window.json")
    before.mode.setCurrentIndex(1)
    before.share.setValue(12.5)
    before.heads.setChecked(True)
    before.name.setText("halves")
    settings.views = ViewStates(settings).collected({"model": before})
    after = form()
    _stored(tmp_path).restore(after)
    assert after.view_state() == before.view_state()
    settings.reopen = False
    fresh = form()
    _stored(tmp_path).restore(fresh)
    assert fresh.name.text() == ""


@pytest.mark.parametrize(
    "state",
    [
        {"mode": "gone", "share": "12", "heads": 7, "name": None, "halves": [1, "2"]},
        {"mode": {}, "halves": [10**9, 1], "unknown": 1},
        {"mode": 10**40, "share": math.nan, "number": 10**40, "tabs": -1, "halves": [True, True]},
        {"mode": True, "share": 1e300, "number": True, "tabs": 10**40, "halves": [10**40, 1]},
    ],
)
def test_a_damaged_or_older_view_changes_nothing(form, tmp_path, state):
    (tmp_path / "window.json").write_text(json.dumps({"version": 1, "views": {"model": state}}))
    page, before = form(), form().view_state()
    _stored(tmp_path).restore(page)
    assert page.view_state() == before


def test_a_page_that_fails_to_remember_costs_only_itself(form, tmp_path, caplog):
    page, settings = form(), Settings(tmp_path / "window.json")
    settings.views = {"model": {"name": "kept"}, "results": {"name": "never made"}}
    page.view_state = page.restore_view = lambda *_: 1 / 0
    views = ViewStates(settings)
    views.restore(page)
    assert views.collected({"model": page}) == settings.views
    assert len(caplog.records) == 2


def test_a_form_is_remembered_without_a_quit_and_written_once(application, monkeypatch):
    window, settings = application.window, application.workbench.settings
    window._memory.timeout.emit()
    written = []
    monkeypatch.setattr(Settings, "_save", lambda _: written.append(1))
    window._memory.timeout.emit()
    assert not written
    window.show_page("results")
    window.pages["results"].filter.setText("wina")
    window._memory.timeout.emit()
    assert written == [1]
    assert (settings.page, settings.views["results"]["filter"]) == ("results", "wina")
