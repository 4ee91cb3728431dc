"""The window's frame: rail, pages, docks, menus, status line. What the pages do is theirs."""

from PySide6.QtCore import QRect, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QActionGroup, QCloseEvent, QGuiApplication, QKeySequence
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QHBoxLayout,
    QMainWindow,
    QMenu,
    QMessageBox,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from wina_app import about
from wina_app.icons import icon
from wina_app.theme import GRID, MODES, apply_theme
from wina_app.views.focus_order import controls, next_control
from wina_app.views.jobs_dock import JobsView
from wina_app.views.log_dock import LogView
from wina_app.views.page import MessageBar, Page
from wina_app.views.rail import Rail
from wina_app.views.status_line import StatusLine
from wina_app.workbench import Workbench

_SAMPLE_MS = 2_000
_LAYOUT_VERSION = 1
_DEFAULT_SIZE = (1280, 800)


class MainWindow(QMainWindow):
    """Closing it asks when jobs run, then stops engine and store before it goes away."""

    closed = Signal()
    """Everything has ended and is on disk."""

    def __init__(self, workbench: Workbench, log: LogView) -> None:
        super().__init__()
        self._workbench = workbench
        self._stopping = False
        self.has_stopped = False
        self.pages: dict[str, Page] = {}
        self.setWindowTitle("WINA Workbench")
        self.setWindowIcon(icon("app"))
        self.setMinimumSize(GRID * 120, GRID * 75)
        self.setDockOptions(QMainWindow.DockOption.AllowTabbedDocks | QMainWindow.DockOption.AnimatedDocks)
        self.rail = Rail()
        self.rail.page_chosen.connect(self.show_page)
        self._stack = QStackedWidget()
        self.message = MessageBar()
        central = QWidget()
        row = QHBoxLayout(central)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.rail)
        column = QVBoxLayout()
        column.setSpacing(0)
        column.addWidget(self.message)
        column.addWidget(self._stack, 1)
        row.addLayout(column, 1)
        self.setCentralWidget(central)
        self.jobs = JobsView(workbench.jobs)
        self.jobs.pause_requested.connect(workbench.pause)
        self.jobs.resume_requested.connect(workbench.resume)
        self.jobs.cancel_requested.connect(workbench.cancel)
        self.log = log
        self.jobs_dock = self._add_dock("jobs", "Jobs", self.jobs)
        self.log_dock = self._add_dock("log", "Log", self.log)
        self.splitDockWidget(self.jobs_dock, self.log_dock, Qt.Orientation.Horizontal)
        self.resizeDocks([self.jobs_dock, self.log_dock], [3, 2], Qt.Orientation.Horizontal)
        self.resizeDocks([self.jobs_dock], [GRID * 18], Qt.Orientation.Vertical)
        self.status = StatusLine()
        self.setStatusBar(self.status)
        self._build_menus()
        self._sampler = QTimer(self)
        self._sampler.timeout.connect(self._sample)
        self._sampler.start(_SAMPLE_MS)
        workbench.environment_changed.connect(self._on_environment)
        workbench.jobs.added.connect(self._sample)
        workbench.jobs.ended.connect(self._sample)
        workbench.storing_failed.connect(self.show_failure)
        workbench.stopped.connect(self._on_stopped)

    def _add_dock(self, key: str, title: str, content: QWidget) -> QDockWidget:
        dock = QDockWidget(title, self)
        dock.setObjectName(key)
        dock.setWidget(content)
        self.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
        return dock

    # ---- menus -----------------------------------------------------------------------------------------------------

    def _build_menus(self) -> None:
        bar = self.menuBar()
        self.file_menu = bar.addMenu("&File")
        self.recent_menu = QMenu("Open &recent", self)
        self.recent_menu.setAccessibleName("Open recent")
        self.view_menu = bar.addMenu("&View")
        self.pages_end = self.view_menu.addSeparator()
        self.view_menu.addAction(_shortcut(self.jobs_dock.toggleViewAction(), "Ctrl+J"))
        self.view_menu.addAction(_shortcut(self.log_dock.toggleViewAction(), "Ctrl+L"))
        self.view_menu.addSeparator()
        themes = self.view_menu.addMenu("&Theme")
        group = QActionGroup(self)
        for mode in MODES:
            action = themes.addAction(mode.capitalize())
            action.setCheckable(True)
            action.setChecked(mode == self._workbench.settings.theme)
            action.triggered.connect(lambda _=False, mode=mode: self.set_theme(mode))
            group.addAction(action)
        self.run_menu = bar.addMenu("&Run")
        self.primary_action = self.run_menu.addAction("Primary action of the page")
        self.primary_action.setShortcut("Ctrl+Return")
        self.primary_action.triggered.connect(lambda: self.current_page.primary.click())
        self.run_menu.aboutToShow.connect(self._show_primary)
        self.cancel_all = self.run_menu.addAction("Cancel all jobs")
        self.cancel_all.triggered.connect(self._cancel_all)
        help_menu = bar.addMenu("&Help")
        help_menu.addAction("About WINA Workbench").triggered.connect(lambda: about.show(self, self._workbench))

    def fill_file_menu(self, open_folder: QAction, others: list[QAction]) -> None:
        """Model actions come from the Model page."""
        self.file_menu.addAction(open_folder)
        self.file_menu.addMenu(self.recent_menu)
        self.file_menu.addActions(others)
        self.file_menu.addSeparator()
        leave = self.file_menu.addAction("&Quit")
        leave.setShortcut(QKeySequence("Ctrl+Q"))
        leave.triggered.connect(self.close)

    def set_theme(self, mode: str) -> None:
        """Change the appearance now and from now on."""
        apply_theme(QApplication.instance(), mode)
        self._workbench.settings.theme = mode

    def _show_primary(self) -> None:
        button = self.current_page.primary
        self.primary_action.setText(button.text() or "No action on this page")
        self.primary_action.setEnabled(button.isEnabled() and not button.isHidden())
        self.cancel_all.setEnabled(bool(self._workbench.jobs.active))

    def _cancel_all(self) -> None:
        for entry in self._workbench.jobs.active:
            self._workbench.cancel(entry.id)

    # ---- pages -----------------------------------------------------------------------------------------------------

    def add_page(self, page: Page) -> None:
        """Append a page to rail, menu and stack."""
        keys = f"Ctrl+{len(self.pages) + 1}"
        self.pages[page.key] = page
        self._stack.addWidget(page)
        self.rail.add(page.key, page.title, keys)
        action = QAction(page.title, self)
        action.setShortcut(keys)
        action.triggered.connect(lambda: self.show_page(page.key))
        self.view_menu.insertAction(self.pages_end, action)
        page.crumb_clicked.connect(self.show_page)
        if len(self.pages) == 1:
            self.show_page(page.key)

    @property
    def current_page(self) -> Page:
        """The page that is shown."""
        return next(page for page in self.pages.values() if page is self._stack.currentWidget())

    def show_page(self, key: str) -> None:
        """Switch to a page, and to where the keyboard was on it; an unknown key changes nothing."""
        if key not in self.pages:
            return
        page = self.pages[key]
        before = page.focusWidget()
        self._stack.setCurrentWidget(page)
        self.rail.select(key)
        found = [*controls([page.start] if page.start else []), *controls([page.body]), *controls([page])]
        if found:
            (before if before in controls([page.body]) else found[0]).setFocus(Qt.FocusReason.OtherFocusReason)

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Tab goes through the page, then the docks, then the rail."""
        sections = [self.message, self._stack, self.jobs_dock, self.log_dock, self.rail]
        here = [section for section in sections if not section.isWindow()]  # a floating dock has an order of its own
        found = next_control(here, self.focusWidget(), forward=forward)
        if found is None:
            return False
        found.setFocus(Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason)
        return True

    def show_failure(self, text: str) -> None:
        """Something that concerns the whole window went wrong."""
        self.message.show_message("error", text)

    # ---- status ----------------------------------------------------------------------------------------------------

    def _on_environment(self) -> None:
        if self._workbench.environment is not None:
            self.status.show_environment(self._workbench.environment)
        self._sample()

    def _sample(self) -> None:
        pid = self._workbench.engine_pid
        running = any(entry.state in ("running", "pausing", "cancelling") for entry in self._workbench.jobs.active)
        if self._stopping:
            state = "stopping"
        elif self._workbench.environment is None:
            state = "starting"
        elif pid is None:
            state = "stopped"
        else:
            state = "working" if running else "ready"
        self.status.show_engine(state)
        self.status.show_memory(pid)

    # ---- coming and going ------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Back to where the window was, unless that is off every screen now."""
        settings = self._workbench.settings
        self.resize(*_DEFAULT_SIZE)
        if not settings.geometry.isEmpty():
            self.restoreGeometry(settings.geometry)
        if not settings.layout.isEmpty():
            self.restoreState(settings.layout, _LAYOUT_VERSION)
        screen = QGuiApplication.screenAt(self.frameGeometry().center()) or QGuiApplication.primaryScreen()
        self.setGeometry(clamped(self.geometry(), screen.availableGeometry()))
        self.show_page(settings.page)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask when jobs run; then stop everything, and only then go."""
        if self.has_stopped:
            event.accept()
            return
        event.ignore()
        if self._stopping or (self._workbench.jobs.active and not self.confirm_quit()):
            return
        self._stopping = True
        self._workbench.settings.save_window(
            self.saveGeometry(), self.saveState(_LAYOUT_VERSION), self.current_page.key
        )
        self._sampler.stop()
        self._sample()
        self.centralWidget().setEnabled(False)
        self._workbench.stop()

    def confirm_quit(self) -> bool:
        """Whether to cancel the running jobs and quit."""
        count = len(self._workbench.jobs.active)
        what = "1 job is" if count == 1 else f"{count} jobs are"
        box = QMessageBox(QMessageBox.Icon.Question, "Quit WINA Workbench", f"{what} not finished.", parent=self)
        box.setInformativeText("Results that are stored already are kept; the rest can be computed later.")
        leave = box.addButton("Cancel jobs and quit", QMessageBox.ButtonRole.DestructiveRole)
        stay = box.addButton("Keep working", QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(stay)
        box.setEscapeButton(stay)
        box.exec()
        box.deleteLater()
        return box.clickedButton() is leave

    def _on_stopped(self) -> None:
        self.has_stopped = True
        self.close()
        self.closed.emit()


def clamped(window: QRect, screen: QRect) -> QRect:
    """The window's rectangle moved and shrunk until it lies on the screen."""
    size = window.size().boundedTo(screen.size())
    left = min(max(window.left(), screen.left()), screen.right() + 1 - size.width())
    top = min(max(window.top(), screen.top()), screen.bottom() + 1 - size.height())
    return QRect(left, top, size.width(), size.height())


def _shortcut(action: QAction, keys: str) -> QAction:
    action.setShortcut(keys)
    return action
