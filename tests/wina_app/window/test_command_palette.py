"""The command palette: typing, choosing, and commands of other pages."""

import pytest
from PySide6.QtCore import Qt


@pytest.mark.all_pages
def test_typing_and_enter_do_what_was_found_on_its_page_or_say_why_not(application, qtbot):
    window, palette, done = application.window, application.window.palette_view, []
    action = window.pages["latency"].add_command("Frobnicate the sweep", lambda: done.append(window.current_page.key))
    window.show_page("model")
    window.activateWindow()
    before = window.focusWidget()
    window.open_palette()
    qtbot.waitUntil(palette.field.hasFocus)
    first = palette.list.currentIndex().row()
    qtbot.keyClick(palette.field, Qt.Key.Key_Down)
    assert palette.list.currentIndex().row() == first + 1
    qtbot.keyClick(palette.field, Qt.Key.Key_Escape)
    assert not palette.isVisible()
    assert window.focusWidget() is before
    action.setToolTip("Nothing to frobnicate yet")
    for possible in (True, False):
        action.setEnabled(possible)
        window.open_palette()
        qtbot.keyClicks(palette.field, "frobnicate")
        qtbot.keyClick(palette.field, Qt.Key.Key_Return)
        assert (done, palette.isVisible()) == (["latency"], False)
    assert "Nothing to frobnicate" in window.message.label.text()


VERBS = {
    "rotate": "rotation",
    "orthogonalize": "rotation",
    "perplexity": "evaluate",
    "calibrate": "sparsity",
    "generate": "playground",
    "export table": "results",
    "run the study": "studies",
    "open folder": "model",
}


@pytest.mark.all_pages
def test_verbs_of_every_page_are_found_from_every_page(application, qtbot):
    window = application.window
    palette = window.palette_view
    for current in ("model", "studies"):
        window.show_page(current)
        window.open_palette()
        for verb, page in VERBS.items():
            palette.field.setText(verb)
            found = palette.shown()[:4]
            assert page in [entry.page for entry in found], (current, verb, [entry.text for entry in found])
        palette.close_palette()
    window.open_palette()
    qtbot.keyClicks(palette.field, "rotate")
    assert palette.shown()[0].where == "Rotation"
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert window.current_page.key == "rotation"
    assert window.message.isVisible(), "without a model it says why nothing is rotated"
