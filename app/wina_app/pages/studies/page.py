"""View of the Studies page, with the details of the selected study."""

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QKeyEvent
from PySide6.QtWidgets import QFileDialog, QGridLayout, QInputDialog, QLabel, QLineEdit, QSplitter, QWidget

from wina_app.pages.studies.launch_panel import StudyLaunch
from wina_app.pages.studies.study_list import StudyList
from wina_app.pages.studies.study_state import StudyProgress, StudyState, facts
from wina_app.shared.run_grid_view import RunGrid, RunLegend
from wina_app.style.theme import GRID, HALF
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.clear_layout import clear_layout
from wina_app.widgets.controls import ElidedLabel, beside, explain_disabled, push_button, rule, text_label
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.scroll_page import ScrollPage
from wina_core.studies.gallery import GalleryEntry

_GRID_HEIGHT = GRID * 46
"""Least height of a grid that needs as much: the details scroll where there is less room."""
_NO_RUNS = "This study times products only; see the Latency page."


class StudyDetail(QWidget):
    """Read-only details of a study."""

    def __init__(self) -> None:
        super().__init__()
        self.title = text_label("", "title", wrap=True)
        self.description = text_label("", wrap=True)
        self.file = ElidedLabel()
        self.file.setParent(self)  # without one, showing it would open a window
        self.error = text_label("", "failed", wrap=True)
        self._facts = QGridLayout()
        self._facts.setHorizontalSpacing(2 * GRID)
        self._facts.setVerticalSpacing(HALF)
        self._facts.setColumnStretch(1, 1)
        self._runs = text_label("Runs: method × sparsity", "section")
        self.trouble = text_label("", "failed", wrap=True)
        self.remark = text_label("", "muted", wrap=True)
        self.grid = RunGrid()
        self.legend = RunLegend()
        for label in (self.title, self.description, self.error, self.trouble, self.remark):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._column = column = vbox(
            self,
            self.title,
            self.description,
            self.error,
            self._facts,
            rule(),
            margins=(2 * GRID, GRID, 2 * GRID, GRID),
        )
        self._term = HelpButton("Configuration")
        column.addLayout(beside(self._runs, self._term))
        column.addWidget(self.trouble)
        column.addWidget(self.remark)
        column.addWidget(self.grid, 1)
        column.addWidget(self.legend)
        self._rest = column.count()
        column.addStretch(0)

    def show_study(self, entry: GalleryEntry | None) -> None:
        """Show a study, or the error of its file with its line."""
        study = entry.study if entry else None
        self.title.setText(entry.title if entry else "")
        self.description.setText(study.description if study else "")
        self.description.setVisible(bool(study and study.description))
        shipped = entry is not None and entry.kind != "own"
        self.file.setText("" if entry is None else entry.file.name if shipped else str(entry.file))
        self.file.setToolTip(plain_tip(str(entry.file) if entry else ""))
        self.error.setText(entry.error if entry else "")
        self.error.setVisible(bool(entry and entry.error))
        self._facts.removeWidget(self.file)  # `clear_layout` deletes the widgets that it finds
        self.file.setVisible(entry is not None)
        clear_layout(self._facts)
        rows: list[tuple[str, QWidget]] = (
            [(caption, _selectable(text)) for caption, text in facts(study)] if study else []
        )
        for row, (caption, widget) in enumerate([*rows, ("File", self.file)] if entry else []):
            self._facts.addWidget(text_label(caption, "muted"), row, 0, Qt.AlignmentFlag.AlignTop)
            self._facts.addWidget(widget, row, 1)
        self.show_state(None)

    def show_state(self, state: StudyState | None) -> None:
        """Show the runs and their stored parts; None while they are read."""
        grid = state.grid if state else None
        self.grid.show_grid(grid)
        self.legend.show_grid(grid)
        self.grid.setVisible(grid is not None)
        needed = self.grid.verticalHeader().length() + self.grid.horizontalHeader().height() + 2 * GRID
        self.grid.setMinimumHeight(min(needed, _GRID_HEIGHT))
        for widget in (self._runs, self._term):
            widget.setVisible(grid is not None)
        texts = {self.trouble: state.trouble if state else "", self.remark: _remark(state) if state else ""}
        for label, text in texts.items():
            label.setText(text)
            label.setVisible(bool(text))
        self._column.setStretch(self._rest, 0 if grid else 1)  # without a grid the texts stay at the top


def _remark(state: StudyState) -> str:
    if state.request and not state.trouble:
        return f"To run it here, choose on the right {state.request}."
    return "" if state.grid or state.trouble else _NO_RUNS


def _selectable(text: str) -> QLabel:
    label = text_label(text, wrap=True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


_LIST_WIDTH, _NARROWEST_LIST, _DETAIL_WIDTH = GRID * 39, GRID * 26, GRID * 40
_SLURM = (
    "The missing measurements become an array job of this computer's Slurm queue. The command `wina jobs` shows it\n"
    "and imports its results.\n\n"
    "Settings, for example partition=gpu,gpus=1,time=2:00:00; also account, qos, cpus, mem, parallel (elements at\n"
    "once), and any long option of sbatch:"
)
_REST_MS = 80
"""Pause after typing before the list is filtered."""
_RUNNING = "This study is queued or running already"
_BROKEN = "The file of this study cannot be read"
_NO_RESULTS = "Nothing of this study is stored yet"


class StudiesPage(Page):
    """Page to run whole studies: the paper's, the demo's and own ones."""

    study_restored = Signal(Path)
    """Study that was selected when the window was closed."""
    file_opened = Signal(Path)
    forget_requested = Signal()
    run_requested = Signal()
    results_requested = Signal()
    report_requested = Signal(Path)
    submit_requested = Signal()

    def __init__(self) -> None:
        super().__init__("studies", "Studies")
        self._entry: GalleryEntry | None = None
        self._report: Path | None = None
        self._state: StudyState | None = None
        self._progress: StudyProgress | None = None
        self.list = StudyList()
        self.detail = StudyDetail()
        self.launch = StudyLaunch()
        self.open = push_button("Open study file…", self._choose_file)
        tip = "The file itself stays on disk"
        self.forget = push_button("Remove from list", self.forget_requested.emit, tip=tip)
        self.results = push_button("Show results", self.results_requested.emit)
        self.report = push_button("Report…", self._choose_report)
        self.opening = push_button("Open report", self._open_report)
        self.submit = push_button("Submit to Slurm…", self._submit)
        self.show_report(None)
        for button in (self.opening, self.report, self.results, self.submit, self.forget, self.open):
            self.header_actions.addWidget(button)
        self.set_content(self._build())
        self.add_command("Search the studies", self._to_search, "Ctrl+F")
        self.set_primary("Run", enabled=False, reason="No study is selected")
        # In this order: the shortcut does not take the focus from a data folder that is being typed.
        self.primary_triggered.connect(self.launch.commit)
        self.primary_triggered.connect(self.run_requested)
        self.show_study(None)

    def _build(self) -> QWidget:
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search")
        self.search.setAccessibleName("Search the studies")
        self.search.setClearButtonEnabled(True)
        self.search.installEventFilter(self)
        rest = QTimer(self, singleShot=True, interval=_REST_MS)
        rest.timeout.connect(self._filter)
        self.search.textChanged.connect(lambda _: rest.start())
        self.search.returnPressed.connect(self._select_first_match)
        self.unmatched = text_label("No study matches.", "muted", wrap=True)
        self.unmatched.hide()
        left = QWidget()
        left.setMinimumWidth(_NARROWEST_LIST)
        top = vbox(None, self.search, self.unmatched, margins=(GRID, GRID, GRID, GRID))
        vbox(left, top, (self.list, 1), spacing=0)
        detail = ScrollPage(self.detail)
        detail.setMinimumWidth(_DETAIL_WIDTH)
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.setAccessibleName("Studies and the selected one")
        self.splitter.setChildrenCollapsible(False)
        for widget in (left, detail):
            self.splitter.addWidget(widget)
        self.splitter.setSizes([_LIST_WIDTH, 2 * _LIST_WIDTH])
        self.splitter.setStretchFactor(1, 1)
        self.remembered = {"list": self.splitter, "samples": self.launch.options.samples}
        content = QWidget()
        hbox(content, (self.splitter, 1), self.launch, spacing=0)
        return content

    def _to_search(self) -> None:
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def _filter(self) -> None:
        self.unmatched.setVisible(not self.list.filter(self.search.text()))

    def _select_first_match(self) -> None:
        self._filter()
        self.list.select_first()
        self.list.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Go from the search into the list on the Down key."""
        pressed = event.key() if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress else None
        if watched is self.search and pressed == Qt.Key.Key_Down:
            self._select_first_match()
            return True
        return super().eventFilter(watched, event)

    def view_state(self) -> dict[str, object]:
        return super().view_state() | ({"study": str(self._entry.file)} if self._entry else {})

    def restore_view(self, state: Mapping[str, object]) -> None:
        super().restore_view(state)
        if isinstance(file := state.get("study"), str):
            self.study_restored.emit(Path(file))

    def _choose_file(self) -> None:
        file, _ = QFileDialog.getOpenFileName(self, "Open study file", "", "Studies (*.toml *.json)")
        if file:
            self.file_opened.emit(Path(file))

    def _choose_report(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Folder for the report")
        if folder:
            self.report_requested.emit(Path(folder))

    def _submit(self) -> None:
        self.launch.commit()
        self.submit_requested.emit()

    def ask_submission(self, last: str) -> str | None:
        """Ask for the settings of an array job, the last ones at first; None if the user declines."""
        settings, accepted = QInputDialog.getText(self, "Submit to Slurm", _SLURM, text=last)
        return settings.strip() if accepted else None

    def _open_report(self) -> None:
        if self._report is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._report)))

    def show_study(self, entry: GalleryEntry | None, *, removable: bool = False) -> None:
        """Show the selected study, or why its file is invalid."""
        if entry != self._entry:
            self._state = self._progress = None
        self._entry = entry
        self.detail.show_study(entry)
        self.launch.show_study(entry.study if entry else None)
        self.forget.setVisible(removable)
        self._enable()

    def show_state(self, file: Path, state: StudyState | None) -> None:
        """Show the stored part of a study; None while it is read."""
        self.list.show_state(file, state)
        if self._entry is not None and file == self._entry.file:
            self._state = state
            self.detail.show_state(state)
            self.launch.show_state(state)
            self._enable()

    def show_progress(self, progress: StudyProgress | None) -> None:
        self._progress = progress
        self.launch.show_progress(progress)
        self._enable()

    def show_report(self, page: Path | None) -> None:
        """Enable opening the selected study's report; None if there is none."""
        self._report = page
        self.opening.setVisible(page is not None)
        self.opening.setToolTip(plain_tip(str(page or "")))

    def _enable(self) -> None:
        state, reason = self._state, self._reason()
        text = "Run"
        if state is not None and state.to_do:
            text = f"Run {state.to_do:,} measurement" if state.to_do == 1 else f"Run {state.to_do:,} measurements"
        self.set_primary(text, enabled=not reason, reason=reason)
        explain_disabled(self.submit, enabled=not reason, reason=reason)
        stored = state is not None and state.stored > 0
        for button in (self.results, self.report):
            explain_disabled(button, enabled=stored, reason=_NO_RESULTS)

    def _reason(self) -> str:
        """Return why nothing can be run; empty if something can."""
        state = self._state
        if self._entry is None:
            return "No study is selected"
        if self._entry.study is None:
            return _BROKEN
        if state is None:
            return "The stored results are being read"
        if state.request:
            return f"Choose {state.request}"
        if state.trouble:
            return state.trouble
        if self._progress is not None:
            return _RUNNING
        return "" if state.to_do else "All measurements of this study are stored"
