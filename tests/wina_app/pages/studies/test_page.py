"""The Studies page's own conduct; what it counts and queues is the controller's."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QAbstractButton, QFileDialog, QLabel
from wina_app.pages.studies.page import StudiesPage
from wina_app.pages.studies.study_state import StudyProgress, StudyState
from wina_app.shared.run_grid import make_grid
from wina_app.style.theme import apply_stylesheet, apply_theme

from tests.wina_app.studies import BROKEN, DEMO, PAPER, ROLE, write
from wina_core.errors import WinaError
from wina_core.jobs import PendingRun
from wina_core.studies.expand import bind, expand, load_study
from wina_core.studies.gallery import GalleryEntry
from wina_core.studies.tasks.task_folder import RISK


@pytest.fixture
def entries(tmp_path):
    paper, demo = write(tmp_path, "paper", PAPER), write(tmp_path, "demo", DEMO)
    broken = write(tmp_path, "broken", BROKEN)
    with pytest.raises(WinaError) as wrong:
        load_study(broken)
    return (
        GalleryEntry(paper, "paper", load_study(paper)),
        GalleryEntry(demo, "demo", load_study(demo)),
        GalleryEntry(broken, "own", None, str(wrong.value)),
    )


@pytest.fixture
def page(qtbot, qapp, entries):
    apply_theme(qapp, "light")
    page = StudiesPage()
    apply_stylesheet(page)
    qtbot.addWidget(page)
    page.resize(1200, 480)  # of a window of 1280 x 720 with its docks
    page.show()
    page.list.show_list(entries, entries[0].file)
    return page


def choose(page, entry, state=None):
    """Show a study as its controller does."""
    page.show_study(entry, removable=entry.kind == "own")
    page.launch.show_roles([role for role in entry.study.roles if not role.location] if entry.study else ())
    page.launch.show_data("", "")
    page.show_state(entry.file, state)
    page.launch.show_estimate("")
    page.show_report(None)
    page.show_progress(None)


def state_of(study, missing=2):
    runs = expand(bind(study, {ROLE: "demo"}))
    pending = tuple(PendingRun(spec=run, units=("piqa",)) for run in runs[:missing])
    lacking = {run.spec.content_hash(): 1 for run in pending}
    return StudyState(total=len(runs), missing=pending, grid=make_grid(runs, lacking))


def test_the_list_is_grouped_and_says_each_studys_state(page, entries, qtbot):
    headings = [page.list.topLevelItem(row).text(0) for row in range(page.list.topLevelItemCount())]
    assert headings == ["The paper's tables and figures", "Demo", "Own studies"]
    page.show_state(entries[0].file, StudyState(needs=(ROLE,)))
    assert page.list.text_of(entries[0].file) == f"Table 3: a tiny one: needs {ROLE}"
    assert page.list.text_of(entries[2].file) == "broken: cannot be read"
    with qtbot.waitSignal(page.list.chosen) as chosen:
        page.list.setFocus()
        qtbot.keyClick(page.list, Qt.Key.Key_Down)
        qtbot.keyClick(page.list, Qt.Key.Key_Down)
    assert chosen.args == [entries[1].file]


def visible(page):
    items = [page.list.itemAt(5, y) for y in range(0, page.list.viewport().height(), 4)]
    return list(dict.fromkeys(item.text(0) for item in items if item is not None and item.parent() is not None))


def test_studies_are_searched_by_title_description_tasks_and_methods_and_by_mistyped_titles(page, entries, qtbot):
    page.search.setFocus()
    for typed, found in (
        ("table TINY", ["Table 3: a tiny one"]),
        ("dense, teal", ["Table 3: a tiny one"]),
        ("broken", ["broken"]),
        ("tabel", ["Table 3: a tiny one"]),
    ):
        page.search.clear()
        qtbot.keyClicks(page.search, typed)
        qtbot.waitUntil(lambda found=found: visible(page) == found)
        assert page.list.topLevelItem(0).isHidden() is (found == ["broken"])  # headings without studies go too
    page.search.setText("zzz")
    qtbot.waitUntil(page.unmatched.isVisible)
    page.search.clear()
    qtbot.waitUntil(lambda: len(visible(page)) == len(entries))
    page.search.setText("broken")
    with qtbot.waitSignal(page.list.chosen) as chosen:
        qtbot.keyClick(page.search, Qt.Key.Key_Down)
    assert chosen.args == [entries[2].file]


def test_the_selected_study_and_the_options_are_restored(page, entries, qtbot):
    choose(page, entries[1])
    page.launch.options.samples.setChecked(True)
    page.launch.options.consent.setChecked(True)
    state = page.view_state()
    page.launch.options.samples.setChecked(False)
    page.launch.options.consent.setChecked(False)
    with qtbot.waitSignal(page.study_restored) as restored:
        page.restore_view(state)
    assert restored.args == [entries[1].file]
    assert page.launch.options.choice().samples
    assert not page.launch.options.choice().run_model_code, "consent is given each time"


def test_a_study_without_its_model_says_what_to_do_and_asks_for_it(page, entries, qtbot, monkeypatch, tmp_path):
    choose(page, entries[0], StudyState(total=5, needs=(ROLE,)))
    assert not page.primary.isEnabled()
    assert page.primary.toolTip() == f"Choose a model for {ROLE}"
    edit = page.launch.roles[ROLE]
    with qtbot.waitSignal(page.launch.role_mapped) as mapped:
        edit.setFocus()
        qtbot.keyClicks(edit, "meta-llama/Llama-2-7b-hf")
        qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert mapped.args == [ROLE, "meta-llama/Llama-2-7b-hf"]
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path))
    assert edit.placeholderText() == "Folder, GGUF file or model id"
    gguf = str(tmp_path / "model.gguf")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (gguf, ""))
    buttons = (button for button in page.launch.findChildren(QAbstractButton) if ROLE in button.accessibleName())
    locations = (str(tmp_path), gguf, "meta-llama/Llama-2-7b-hf")
    for button, location in zip(buttons, locations, strict=True):
        with qtbot.waitSignal(page.launch.role_mapped) as mapped:
            qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
        assert mapped.args == [ROLE, location]


def test_a_study_that_runs_here_shows_its_runs_and_how_many_are_left(page, entries, qtbot):
    choose(page, entries[0], state_of(entries[0].study))
    assert page.primary.text() == "Run 2 measurements"
    assert page.detail.grid.item(0, 0).text() == "to do"
    assert page.detail.grid.verticalHeaderItem(1).text() == "teal"
    with qtbot.waitSignal(page.run_requested):
        qtbot.mouseClick(page.primary, Qt.MouseButton.LeftButton)
    choose(page, entries[0], state_of(entries[0].study, missing=0))
    assert (page.primary.text(), page.primary.isEnabled()) == ("Run", False)
    assert "are stored" in page.primary.toolTip()
    assert page.results.isEnabled()


def test_consent_can_be_given_whatever_the_tasks_are_called_states_the_risk_and_is_never_kept(page, entries):
    consent, risk = page.launch.options.consent, page.launch.options.risk
    choose(page, entries[0], state_of(entries[0].study))
    assert (consent.isVisible(), consent.isEnabled()) == (True, True)
    choose(page, entries[1])
    assert not consent.isChecked(), "off at each start"
    consent.setChecked(True)
    assert (risk.isVisible(), risk.text()) == (True, RISK)
    page.launch.options.samples.setChecked(True)
    assert (page.launch.options.choice().run_model_code, page.launch.options.choice().samples) == (True, True)
    choose(page, entries[0], state_of(entries[0].study))
    assert not page.launch.options.choice().run_model_code
    choose(page, entries[1])
    assert not page.launch.options.choice().run_model_code, "not carried to another study and back"
    assert not risk.isVisible()


def test_data_come_from_a_folder_that_is_typed_or_chosen(page, entries, qtbot, monkeypatch, tmp_path):
    choose(page, entries[0], state_of(entries[0].study))
    edit, told = page.launch.data.edit, []
    page.launch.data_chosen.connect(told.append)
    assert (edit.text(), edit.placeholderText()) == ("", "Hugging Face Hub (default)")
    assert "validation.jsonl" in edit.toolTip()
    (label,) = [label for label in page.launch.findChildren(QLabel) if label.buddy() is edit]
    assert label.text() == edit.accessibleName() == "Data of the tasks"
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path))
    page.launch.data.choose.click()
    assert told == [str(tmp_path)]
    edit.clear()
    qtbot.keyClicks(edit, "/data")
    assert told == [str(tmp_path)], "not letter by letter"
    page.launch.show_data(str(tmp_path), "")
    assert edit.text() == "/data", "what is typed stays"
    page.primary_triggered.emit()
    assert told[-1] == "/data", "it holds for what is run by a key"
    choose(page, entries[1])
    assert edit.text() == "", "another study has its own"
    page.launch.show_data("", "demo")
    assert edit.placeholderText() == "From the file: demo"


def test_a_broken_file_shows_its_field_and_reason_in_place(page, entries):
    choose(page, entries[2])
    assert page.detail.file.whole() == page.detail.file.toolTip() == str(entries[2].file)
    assert page.detail.error.isVisible()
    assert "sparsities[0]" in page.detail.error.text()
    assert not page.primary.isEnabled()
    assert page.forget.isVisible()
    choose(page, entries[0])
    assert (page.detail.file.whole(), page.detail.file.toolTip()) == ("paper.toml", str(entries[0].file))
    assert page.detail.file.window() is page
    assert not page.detail.error.isVisible()
    assert not page.forget.isVisible()


def test_progress_is_paused_resumed_and_cancelled(page, entries, qtbot):
    choose(page, entries[0], state_of(entries[0].study))
    page.show_progress(StudyProgress(0.5, "1 of 5 measurements stored", paused=False, changing=False))
    assert page.launch.bar.value() == 500
    assert not page.launch.data.edit.isEnabled()
    assert "use this folder" in page.launch.data.edit.toolTip()
    assert (page.primary.isEnabled(), page.primary.toolTip()) == (False, "This study is queued or running already")
    with qtbot.waitSignal(page.launch.pause_requested):
        qtbot.mouseClick(page.launch.pause, Qt.MouseButton.LeftButton)
    page.show_progress(StudyProgress(0.5, "", paused=False, changing=True))
    assert not page.launch.pause.isEnabled()
    assert page.launch.pause.toolTip()
    page.show_progress(StudyProgress(0.5, "", paused=True, changing=False))
    assert page.launch.pause.text() == "Resume"
    with qtbot.waitSignal(page.launch.resume_requested):
        qtbot.mouseClick(page.launch.pause, Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(page.launch.cancel_requested):
        qtbot.mouseClick(page.launch.cancel, Qt.MouseButton.LeftButton)
    page.show_progress(None)
    assert not page.launch.bar.isVisible()
    assert page.primary.isEnabled()
    assert page.launch.data.edit.isEnabled()


def test_files_are_opened_by_a_dialog(page, qtbot, monkeypatch, tmp_path):
    file = str(tmp_path / "mine.toml")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (file, ""))
    with qtbot.waitSignal(page.file_opened) as opened:
        qtbot.mouseClick(page.open, Qt.MouseButton.LeftButton)
    assert opened.args == [Path(file)]


def test_a_report_is_asked_for_and_opened_on_request(page, entries, qtbot, monkeypatch, tmp_path):
    choose(page, entries[0], state_of(entries[0].study))
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path))
    with qtbot.waitSignal(page.report_requested) as asked:
        qtbot.mouseClick(page.report, Qt.MouseButton.LeftButton)
    assert asked.args == [tmp_path]
    assert not page.opening.isVisible()
    page.show_report(tmp_path / "report.html")
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    qtbot.mouseClick(page.opening, Qt.MouseButton.LeftButton)
    assert opened == [str(tmp_path / "report.html")]


MARKUP = "<h1>x</h1><img src='file:///x'>"


def test_texts_of_a_study_are_shown_to_the_letter(page, tmp_path):
    text = PAPER.replace("Table 3: a tiny one", MARKUP).replace("Dense, TEAL", f"{MARKUP} Dense").replace(ROLE, MARKUP)
    file = write(tmp_path, "marked", text)
    entry = GalleryEntry(file, "own", load_study(file))
    page.list.show_list([entry], file)
    choose(page, entry, StudyState(total=5, needs=(MARKUP,)))
    page.show_error(f"wrong: {MARKUP}")
    shown = [label for label in page.findChildren(QLabel) if MARKUP in label.text()]
    assert {page.detail.title, page.detail.description, page.detail.remark, page.message.label} <= set(shown)
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in shown)
    tips = [page.list.currentItem().toolTip(0), page.primary.toolTip()]
    assert all("&lt;h1&gt;" in tip and "<img" not in tip for tip in tips)
