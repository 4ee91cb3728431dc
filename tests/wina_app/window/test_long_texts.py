"""Texts without a space, however long, keep nobody waiting."""

import pytest
from PySide6.QtGui import QTextOption
from wina_app.jobs.log import LogView
from wina_app.pages.gate_inspector.panel import GateForm
from wina_app.pages.playground.form import PlaygroundForm
from wina_app.pages.results.run_inspector import ResultsInspector

FIELDS = {GateForm: "prompt", PlaygroundForm: "prompt", LogView: "text", ResultsInspector: "note"}


@pytest.mark.parametrize(("view", "field"), FIELDS.items(), ids=lambda each: getattr(each, "__name__", each))
def test_a_word_of_30_000_letters_is_laid_out_at_once(qtbot, stall_watchdog, view, field):
    shown = view()
    qtbot.addWidget(shown)
    with qtbot.waitExposed(shown):
        shown.show()
    edit = getattr(shown, field)
    assert edit.wordWrapMode() == QTextOption.WrapMode.WordWrap
    stall_watchdog.start()
    edit.setPlainText("x" * 30_000)
    qtbot.wait(1)
