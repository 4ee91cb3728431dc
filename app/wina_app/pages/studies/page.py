"""View of the Studies page."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QDragEnterEvent, QDropEvent, QKeyEvent
from PySide6.QtWidgets import QFileDialog, QLineEdit, QSplitter, QWidget

from wina_app.pages.studies.details_panel import StudyDetail
from wina_app.pages.studies.launch_panel import StudyLaunch
from wina_app.pages.studies.study_list import StudyList
from wina_app.pages.studies.study_state import StudyProgress, StudyState
from wina_app.pages.studies.submit_choice import SubmitChoice
from wina_app.shared.task_consent import ask_task_code
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import explain_disabled, push_button, text_label
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.scroll_page import ScrollPage
from wina_core.specs.studies import Role
from wina_core.studies.gallery import GalleryEntry
from wina_core.studies.launch import LaunchOptions
from wina_core.studies.tasks.task_code import TaskCode

_SUFFIXES = (".toml", ".json")
_LIST_WIDTH, _NARROWEST_LIST, _DETAIL_WIDTH = GRID * 39, GRID * 26, GRID * 40
_REST_MS = 80
"""Pause after typing before the list is filtered."""
_RUNNING = tr("This study is queued or running already")
_BROKEN = tr("The file of this study cannot be read")
_NO_RESULTS = tr("Nothing of this study is stored yet")


class StudiesPage(Page):
    """Page to run whole studies: the paper's, the demo's and own ones."""

    changed = Signal()
    study_chosen = Signal(Path)
    study_restored = Signal(Path)
    """Study that was selected when the window was closed."""
    file_opened = Signal(Path)
    forget_requested = Signal()
    role_mapped = Signal(str, str)
    data_chosen = Signal(str)
    estimate_requested = Signal()
    run_requested = Signal()
    pause_requested = Signal()
    resume_requested = Signal()
    cancel_requested = Signal()
    results_requested = Signal()
    report_requested = Signal(Path)
    submit_requested = Signal()

    def __init__(self) -> None:
        super().__init__("studies", tr("Studies"))
        self.setAcceptDrops(True)
        self._entry: GalleryEntry | None = None
        self._report: Path | None = None
        self._state: StudyState | None = None
        self._progress: StudyProgress | None = None
        self.list = StudyList()
        self.list.chosen.connect(self.study_chosen)
        self.detail = StudyDetail()
        self.launch = StudyLaunch()
        self.open = push_button(tr("Open study file…"), self._choose_file)
        tip = tr("The file itself stays on disk")
        self.forget = push_button(tr("Remove from list"), self.forget_requested.emit, tip=tip)
        self.results = push_button(tr("Show results"), self.results_requested.emit)
        self.report = push_button(tr("Report…"), self._choose_report)
        self.opening = push_button(tr("Open report"), self._open_report)
        self.submit = push_button(tr("Submit to Slurm…"), self._submit)
        self.show_report(None)
        for button in (self.opening, self.report, self.results, self.submit, self.forget, self.open):
            self.header_actions.addWidget(button)
        self.launch.role_mapped.connect(self.role_mapped)
        self.launch.data_chosen.connect(self.data_chosen)
        self.launch.changed.connect(self.changed)
        self.launch.estimate_requested.connect(self.estimate_requested)
        self.launch.pause_requested.connect(self.pause_requested)
        self.launch.resume_requested.connect(self.resume_requested)
        self.launch.cancel_requested.connect(self.cancel_requested)
        self.set_content(self._build())
        self.add_command(tr("Search the studies"), self._to_search, "Ctrl+F")
        self.set_primary(tr("Run"), enabled=False, reason=tr("No study is selected"))
        self.primary_triggered.connect(self.launch.commit)
        self.primary_triggered.connect(self.run_requested)
        self.show_study(None)

    def _build(self) -> QWidget:
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Search"))
        self.search.setAccessibleName(tr("Search the studies"))
        self.search.setClearButtonEnabled(True)
        self.search.installEventFilter(self)
        rest = QTimer(self, singleShot=True, interval=_REST_MS)
        rest.timeout.connect(self._filter)
        self.search.textChanged.connect(lambda _: rest.start())
        self.search.returnPressed.connect(self._take_first)
        self.unmatched = text_label(tr("No study matches."), "muted", wrap=True)
        self.unmatched.hide()
        found = QWidget()
        found.setMinimumWidth(_NARROWEST_LIST)
        top = vbox(None, self.search, self.unmatched, margins=(GRID, GRID, GRID, GRID))
        vbox(found, top, (self.list, 1), spacing=0)
        detail = ScrollPage(self.detail)
        detail.setMinimumWidth(_DETAIL_WIDTH)
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.setAccessibleName(tr("Studies and the selected one"))
        self.splitter.setChildrenCollapsible(False)
        for widget in (found, detail):
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

    def _take_first(self) -> None:
        self._filter()
        self.list.select_first()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Go from the search into the list by the Down key."""
        pressed = event.key() if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress else None
        if watched is self.search and pressed == Qt.Key.Key_Down:
            self._take_first()
            return True
        return super().eventFilter(watched, event)

    def view_state(self) -> dict[str, object]:
        """Return options, width of the list and the selected study."""
        return super().view_state() | ({"study": str(self._entry.file)} if self._entry else {})

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore options, width of the list and the selected study."""
        super().restore_view(state)
        if isinstance(file := state.get("study"), str):
            self.study_restored.emit(Path(file))

    def choice(self) -> LaunchOptions:
        return self.launch.choice()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Accept study files."""
        if _dropped_file(event) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Emit the dropped study file."""
        file = _dropped_file(event)
        if file is not None:
            event.acceptProposedAction()
            self.file_opened.emit(file)

    def _choose_file(self) -> None:
        file, _ = QFileDialog.getOpenFileName(self, tr("Open study file"), "", tr("Studies (*.toml *.json)"))
        if file:
            self.file_opened.emit(Path(file))

    def _choose_report(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, tr("Folder for the report"))
        if folder:
            self.report_requested.emit(Path(folder))

    def _submit(self) -> None:
        self.launch.commit()
        self.submit_requested.emit()

    def ask_submission(self, last: SubmitChoice) -> SubmitChoice | None:
        from wina_app.pages.studies.submit_dialog import SubmitDialog  # few need it

        dialog = SubmitDialog(last, self)
        return dialog.choice() if dialog.exec() else None

    def _open_report(self) -> None:
        if self._report is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._report)))

    def withdraw_consent(self) -> None:
        self.launch.withdraw_consent()

    def ask_task_code(self, codes: Sequence[TaskCode]) -> bool:
        return ask_task_code(codes, self)

    def show_list(self, entries: Sequence[GalleryEntry], selected: Path | None) -> None:
        self.list.show_list(entries, selected)

    def show_study(self, entry: GalleryEntry | None, *, removable: bool = False) -> None:
        if entry != self._entry:
            self._state = self._progress = None
        self._entry = entry
        self.detail.show_study(entry)
        self.launch.show_study(entry.study if entry else None)
        self.forget.setVisible(removable)
        self._enable()

    def show_roles(self, roles: Sequence[Role]) -> None:
        self.launch.show_roles(roles)

    def show_data(self, folder: str, own: str) -> None:
        self.launch.show_data(folder, own)

    def show_state(self, file: Path, state: StudyState | None) -> None:
        self.list.show_state(file, state)
        if self._entry is not None and file == self._entry.file:
            self._state = state
            self.detail.show_state(state)
            self.launch.show_state(state)
            self._enable()

    def show_active(self, files: Collection[Path]) -> None:
        self.list.show_active(files)

    def show_progress(self, progress: StudyProgress | None) -> None:
        self._progress = progress
        self.launch.show_progress(progress)
        self._enable()

    def show_estimate(self, text: str, *, running: bool = False) -> None:
        self.launch.show_estimate(text, running=running)

    def show_report(self, page: Path | None) -> None:
        self._report = page
        self.opening.setVisible(page is not None)
        self.opening.setToolTip(plain_tip(str(page or "")))

    def _enable(self) -> None:
        state, reason = self._state, self._reason()
        text = tr("Run")
        if state is not None and state.to_do:
            text = tr("Run {n} measurements", "Run {n} measurement", state.to_do)
        self.set_primary(text, enabled=not reason, reason=reason)
        explain_disabled(self.submit, enabled=not reason, reason=reason)
        stored = state is not None and state.stored > 0
        for button in (self.results, self.report):
            explain_disabled(button, enabled=stored, reason=_NO_RESULTS)

    def _reason(self) -> str:
        """Return why nothing can be run; empty if something can."""
        state = self._state
        if self._entry is None:
            return tr("No study is selected")
        if self._entry.study is None:
            return _BROKEN
        if state is None:
            return tr("The stored results are being read")
        if state.request:
            return tr("Choose {inputs}", inputs=state.request)
        if state.trouble:
            return state.trouble
        if self._progress is not None:
            return _RUNNING
        return "" if state.to_do else tr("All measurements of this study are stored")


def _dropped_file(event: QDragEnterEvent | QDropEvent) -> Path | None:
    urls = event.mimeData().urls()
    files = [Path(url.toLocalFile()) for url in urls if url.isLocalFile()]
    return files[0] if len(files) == 1 and files[0].suffix.lower() in _SUFFIXES else None
