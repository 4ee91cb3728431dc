"""The command palette and how it finds what was meant."""

from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from wina_app.window.fuzzy_match import ranked, score

COMMANDS = ["Results", "Reset layout", "New results database", "Open recent", "Export table", "Cancel all jobs"]


def test_letters_must_occur_in_their_order_whatever_their_case():
    assert score("rst", "Reset layout") is not None
    assert score("tsr", "Reset layout") is None
    assert score("RES LAY", "Reset layout") is not None
    assert score("", "anything") is not None


def test_words_beginnings_come_first():
    assert COMMANDS[ranked("rl", COMMANDS)[0]] == "Reset layout"
    assert COMMANDS[ranked("res", COMMANDS)[0]] == "Results"
    assert [COMMANDS[i] for i in ranked("nrd", COMMANDS)] == ["New results database"]


@given(st.text(max_size=12), st.lists(st.text(max_size=30), max_size=8))
def test_what_is_found_is_a_subsequence_and_everything_that_is_one_is_found(query, texts):
    def is_subsequence(text: str) -> bool:
        letters = iter(text.casefold())
        return all(letter in letters for letter in query.casefold().replace(" ", ""))

    assert sorted(ranked(query, texts)) == [i for i, text in enumerate(texts) if is_subsequence(text)]


def test_typing_and_enter_do_what_was_found(application, qtbot):
    window = application.window
    window.activateWindow()
    window.open_palette()
    palette = window.palette_view
    qtbot.waitUntil(palette.field.hasFocus)
    qtbot.keyClicks(palette.field, "sparsity")
    assert palette.shown()[0].text == "Sparsity"
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert not palette.isVisible()
    assert window.current_page.key == "sparsity"


def test_arrows_choose_another_and_escape_gives_the_keyboard_back(application, qtbot):
    window = application.window
    window.activateWindow()
    window.show_page("model")
    before = window.focusWidget()
    window.open_palette()
    palette = window.palette_view
    first = palette.list.currentIndex().row()
    qtbot.keyClick(palette.field, Qt.Key.Key_Down)
    assert palette.list.currentIndex().row() == first + 1
    qtbot.keyClick(palette.field, Qt.Key.Key_Escape)
    assert not palette.isVisible()
    assert window.focusWidget() is before


def test_what_another_page_offers_is_done_there(application, qtbot):
    window = application.window
    done = []
    window.pages["latency"].add_command("Frobnicate the sweep", lambda: done.append(window.current_page.key))
    window.show_page("model")
    window.open_palette()
    qtbot.keyClicks(window.palette_view.field, "frobnicate")
    qtbot.keyClick(window.palette_view.field, Qt.Key.Key_Return)
    assert done == ["latency"]


def test_what_is_not_possible_says_why(application, qtbot):
    window = application.window
    action = window.pages["latency"].add_command("Frobnicate", lambda: None)
    action.setEnabled(False)
    action.setToolTip("Nothing to frobnicate yet")
    window.open_palette()
    qtbot.keyClicks(window.palette_view.field, "frobnicate")
    qtbot.keyClick(window.palette_view.field, Qt.Key.Key_Return)
    assert "Nothing to frobnicate" in window.message.label.text()
