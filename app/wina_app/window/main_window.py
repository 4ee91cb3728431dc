"""The window's frame: rail, pages, docks, menus, status line. What the pages do is theirs."""

from collections.abc import Callable

from PySide6.QtCore import QChildEvent, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QGuiApplication, QUndoGroup
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QHBoxLayout,
    QMainWindow,
    QMessageBox,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from wina_app.docks.jobs import JobsView
from wina_app.docks.log import LogView
from wina_app.pages import PAGES, titles
from wina_app.services.preferences import Preferences, look_of
from wina_app.services.workbench import Workbench
from wina_app.style.icons import icon
from wina_app.style.theme import GRID, apply_theme, dress
from wina_app.style.translation import tr
from wina_app.widgets.base_page import PRIMARY_KEYS, MessageBar, Page
from wina_app.widgets.file_dialogs import dropped_path
from wina_app.widgets.help_button import HelpMark
from wina_app.window import about
from wina_app.window.command_palette import CommandPalette, Entry
from wina_app.window.focus_order import controls, next_control, reveal
from wina_app.window.help_dock import HelpView
from wina_app.window.inspector_dock import InspectorView
from wina_app.window.menus import Menus
from wina_app.window.page_rail import Rail
from wina_app.window.settings_dialog import SettingsDialog
from wina_app.window.shortcuts_dialog import ShortcutsDialog
from wina_app.window.status_line import StatusLine
from wina_app.window.toast import Toasts
from wina_app.window.window_place import clamped

_SAMPLE_MS = 2_000
_LAYOUT_VERSION = 2
_DEFAULT_SIZE = (1280, 800)
_BOTTOM, _RIGHT = Qt.DockWidgetArea.BottomDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea


class MainWindow(QMainWindow):
    """Closing it asks when jobs run, then stops engine and store before it goes away."""

    closed = Signal()
    """Everything has ended and is on disk."""
    dropped = Signal(object)
    """Path of a file or folder that was dropped onto the window."""
    preferences_changed = Signal(object)
    """The new Preferences."""
    page_missing = Signal(str)
    """Key of a page that is to be shown and was not taken in yet."""

    def __init__(self, workbench: Workbench, log: LogView) -> None:
        super().__init__()
        dress(self)
        self._workbench, self.log = workbench, log
        self._stopping = self.has_stopped = False
        self.pages: dict[str, Page] = {}
        self.setWindowTitle("WINA Workbench")
        self.setWindowIcon(icon("app"))
        self.setMinimumSize(GRID * 120, GRID * 75)
        self.setAcceptDrops(True)
        self.setDockOptions(QMainWindow.DockOption.AllowTabbedDocks | QMainWindow.DockOption.AnimatedDocks)
        keys = {key: f"Ctrl+{number}" for number, key in enumerate(PAGES, start=1)}
        self.rail = Rail({key: (title, keys[key]) for key, title in titles().items()})
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
        self.inspector, self.help = InspectorView(), HelpView()
        self.docks = {
            "jobs": self._add_dock("jobs", tr("Jobs"), self.jobs, _BOTTOM),
            "log": self._add_dock("log", tr("Log"), self.log, _BOTTOM),
            "inspector": self._add_dock("inspector", tr("Inspector"), self.inspector, _RIGHT),
            "help": self._add_dock("help", tr("Help"), self.help, _RIGHT),
        }
        self._arrange_docks()
        self._first_layout = self.saveState(_LAYOUT_VERSION)
        self.status = StatusLine()
        self.setStatusBar(self.status)
        self._undo = QUndoGroup(self)
        self.toasts = Toasts(self, above=lambda: self.height() - self.centralWidget().geometry().bottom())
        for dock in self.docks.values():
            dock.visibilityChanged.connect(self.toasts.arrange)  # a dock that is raised lies over them
        self.palette_view = CommandPalette(self)
        self.palette_view.chosen.connect(self._do)
        self.menus = Menus(self.menuBar(), self)
        for key, title in titles().items():
            self.menus.add_page(title, lambda key=key: self.show_page(key), keys[key])
        self._fill_menus()
        self._sampler = QTimer(self)
        self._sampler.timeout.connect(self._sample)
        self._sampler.start(_SAMPLE_MS)
        workbench.environment_changed.connect(self._on_environment)
        workbench.jobs.added.connect(self._sample)
        workbench.jobs.ended.connect(self._sample)
        workbench.storing_failed.connect(self.show_failure)
        workbench.stopped.connect(self._on_stopped)

    def _add_dock(self, key: str, title: str, content: QWidget, area: Qt.DockWidgetArea) -> QDockWidget:
        dock = QDockWidget(title, self)
        dock.setObjectName(key)
        dock.setWidget(content)
        self.addDockWidget(area, dock)
        return dock

    def _arrange_docks(self) -> None:
        jobs, log, inspector, help_ = self.docks.values()
        self.setCorner(Qt.Corner.BottomRightCorner, _RIGHT)
        self.splitDockWidget(jobs, log, Qt.Orientation.Horizontal)
        self.resizeDocks([jobs, log], [3, 2], Qt.Orientation.Horizontal)
        self.resizeDocks([jobs], [GRID * 18], Qt.Orientation.Vertical)
        self.tabifyDockWidget(inspector, help_)
        inspector.hide()
        help_.hide()

    # ---- menus -----------------------------------------------------------------------------------------------------

    def _fill_menus(self) -> None:
        """What the frame does itself; `Application` adds what concerns files."""
        menus = self.menus
        undo, redo = self._undo.createUndoAction(self), self._undo.createRedoAction(self)
        menus.append(menus.edit, undo, "Ctrl+Z", tr("Undo the last step on this page"))
        menus.append(menus.edit, redo, "Ctrl+Shift+Z", tr("Do again what was undone"))
        menus.edit.addSeparator()
        self.settings_action = menus.add(menus.edit, tr("&Settings…"), self.open_settings, "Ctrl+,")
        keys = {"jobs": "Ctrl+J", "log": "Ctrl+L", "inspector": "Ctrl+I", "help": "Ctrl+Shift+H"}
        for key, dock in self.docks.items():
            menus.append(
                menus.view, dock.toggleViewAction(), keys[key], tr("Show or hide {dock}", dock=dock.windowTitle())
            )
        menus.view.addSeparator()
        menus.add_themes(self.set_theme)
        menus.add(menus.view, tr("Full &screen"), self._toggle_full_screen, "F11")
        menus.add(
            menus.view, tr("&Reset layout"), self.reset_layout, "Ctrl+Shift+R", tr("All docks back to their places")
        )
        self.primary_action = menus.add(
            menus.run, tr("Primary action of the page"), lambda: self.current_page.primary.click(), PRIMARY_KEYS
        )
        self.cancel_all = menus.add(menus.run, tr("&Cancel all jobs"), self._cancel_all, "Ctrl+Shift+Del")
        menus.run.aboutToShow.connect(self._show_primary)
        menus.add(menus.help, tr("Command &palette"), self.open_palette, "Ctrl+K", tr("Find and do anything"))
        menus.add(menus.help, tr("&Guide"), lambda: self.show_help("index.md"), "F1")
        menus.add(menus.help, tr("What this page is &for"), self._show_page_help, "Shift+F1")
        menus.add(menus.help, tr("&Keyboard shortcuts"), self._open_shortcuts, "Ctrl+/")
        menus.add(menus.help, tr("&About WINA Workbench"), lambda: about.show(self, self._workbench), "Ctrl+F1")

    def open_palette(self) -> None:
        """Offer everything that can be done."""
        self._show_primary()
        self.menus.recent.aboutToShow.emit()  # which fills it
        self.palette_view.open(self.menus.entries(self.pages, self.current_page))

    def _do(self, entry: Entry) -> None:
        if entry.page:
            self.show_page(entry.page)
        if entry.action.isEnabled():
            entry.action.trigger()
        else:
            self.show_notice(entry.action.toolTip() or tr("This is not possible right now."))

    def open_settings(self) -> None:
        """The settings, which take effect as they are changed."""
        dialog = SettingsDialog(self, self._workbench.settings.preferences)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.changed.connect(self.apply_preferences)
        dialog.open()

    def apply_preferences(self, preferences: Preferences) -> None:
        """Take over what the user set, now and from now on."""
        before = self._workbench.settings.preferences
        self._workbench.settings.preferences = preferences
        if look_of(before) != look_of(preferences):
            apply_theme(QApplication.instance(), *look_of(preferences))
        self.menus.themes[preferences.theme].setChecked(True)
        self.preferences_changed.emit(preferences)

    def _open_shortcuts(self) -> None:
        dialog = ShortcutsDialog(self, self.menus.entries(self.pages, self.current_page))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def show_help(self, topic: str) -> None:
        """Open the guide at a chapter, or at a heading of one after a "#"."""
        self.docks["help"].show()
        self.docks["help"].raise_()
        self.help.show_topic(topic)

    def _show_page_help(self) -> None:
        self.show_help(f"pages.md#{self.current_page.key}")

    def show_dock(self, key: str) -> None:
        """Bring a dock to the front, and the keyboard to it."""
        dock = self.docks[key]
        dock.show()
        dock.raise_()
        found = controls([dock])
        if found:
            found[0].setFocus(Qt.FocusReason.OtherFocusReason)

    def reset_layout(self) -> None:
        """All docks back to where they are at the first start."""
        self.restoreState(self._first_layout, _LAYOUT_VERSION)

    def _toggle_full_screen(self) -> None:
        self.setWindowState(self.windowState() ^ Qt.WindowState.WindowFullScreen)

    def set_theme(self, mode: str) -> None:
        """Change the appearance now and from now on."""
        self.apply_preferences(self._workbench.settings.preferences.model_copy(update={"theme": mode}))

    def _show_primary(self) -> None:
        button = self.current_page.primary
        self.primary_action.setText(button.text() or tr("No action on this page"))
        self.primary_action.setEnabled(button.isEnabled() and not button.isHidden())
        self.cancel_all.setEnabled(bool(self._workbench.jobs.active))

    def _cancel_all(self) -> None:
        for entry in self._workbench.jobs.active:
            self._workbench.cancel(entry.id)

    # ---- pages -----------------------------------------------------------------------------------------------------

    def add_page(self, page: Page) -> None:
        """Take a page in at its place."""
        self.pages[page.key] = page
        self.pages = {key: self.pages[key] for key in PAGES if key in self.pages}
        self._stack.addWidget(page)
        if page.inspector is not None:
            self.inspector.addWidget(page.inspector)
        if page.undo_stack is not None:
            self._undo.addStack(page.undo_stack)
        for mark in page.findChildren(HelpMark):
            mark.requested.connect(self.show_help)
        page.crumb_clicked.connect(self.show_page)

    @property
    def current_page(self) -> Page:
        """The page that is shown."""
        return next(page for page in self.pages.values() if page is self._stack.currentWidget())

    def show_page(self, key: str) -> None:
        """Switch to a page, and to where the keyboard was on it; one that is not there yet is made first."""
        if key not in self.pages:
            self.page_missing.emit(key)
        if (page := self.pages.get(key)) is None:
            return
        before = page.focusWidget()
        self._stack.setCurrentWidget(page)
        self.rail.select(key)
        self.menus.show_page(page)
        self._undo.setActiveStack(page.undo_stack)
        self.inspector.show_inspector(page.inspector)
        found = [*controls([page.start] if page.start else []), *controls([page.body]), *controls([page])]
        if found:
            (before if before in controls([page.body]) else found[0]).setFocus(Qt.FocusReason.OtherFocusReason)

    def childEvent(self, event: QChildEvent) -> None:
        """Docks that share a place have shortcuts of their own, so that Tab need not go through Qt's tabs for them."""
        if event.polished() and isinstance(event.child(), QTabBar):
            event.child().setFocusPolicy(Qt.FocusPolicy.NoFocus)
            event.child().setAccessibleName(tr("Docks"))

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Tab goes through the page, then the docks, then the rail."""
        sections = [self.message, self._stack, *self.docks.values(), self.rail, *self.toasts.shown]
        here = [section for section in sections if not section.isWindow()]  # a floating dock has an order of its own
        found = next_control(here, self.focusWidget(), forward=forward)
        if found is None:
            return False
        self.setAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)  # without it sliders and tabs do not show focus
        found.setFocus(Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason)
        reveal(found)
        return True

    def show_failure(self, text: str) -> None:
        """Something that concerns the whole window went wrong."""
        self.message.show_message("error", text)

    def clear_failure(self) -> None:
        """It is mended, or something else is tried; a page that says the same has it no more either."""
        self.message.hide()
        for page in self.pages.values():
            page.message.withdraw(self.message.label.text())

    def show_notice(self, text: str) -> None:
        """Something that concerns the whole window, and is no failure."""
        self.message.show_message("notice", text)

    def say(self, word: str, text: str, button: str, do: Callable[[], object]) -> None:
        """Tell something in passing, with a button that does something about it."""
        self.toasts.say(word, text, button, do)

    def show_database(self, name: str, url: str) -> None:
        """Say in which database the results are."""
        self.status.show_database(name, url)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """One file or folder is welcome; what it is, is seen when it drops."""
        if dropped_path(event) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Open it."""
        path = dropped_path(event)
        if path is not None:
            event.acceptProposedAction()
            self.dropped.emit(path)

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

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask when jobs run; then stop everything, and only then go."""
        if self.has_stopped:
            event.accept()
            return
        event.ignore()
        if self._stopping or not self._may_quit():
            return
        self._stopping = True
        layout = self.saveState(_LAYOUT_VERSION)
        self._workbench.settings.save_window(self.saveGeometry(), layout, self.current_page.key)
        self._sampler.stop()
        self._sample()
        self.centralWidget().setEnabled(False)
        self._workbench.stop()

    def _may_quit(self) -> bool:
        asks = self._workbench.jobs.active and self._workbench.settings.preferences.confirm_quit
        return not asks or self.confirm_quit()

    def confirm_quit(self) -> bool:
        """Whether to cancel the running jobs and quit."""
        what = tr("Not finished yet: {jobs}.", jobs=tr("{n} jobs", "{n} job", len(self._workbench.jobs.active)))
        box = QMessageBox(QMessageBox.Icon.Question, tr("Quit WINA Workbench"), what, parent=self)
        box.setInformativeText(tr("Results that are stored already are kept; the rest can be computed later."))
        leave = box.addButton(tr("Cancel jobs and quit"), QMessageBox.ButtonRole.DestructiveRole)
        stay = box.addButton(tr("Keep working"), QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(stay)
        box.setEscapeButton(stay)
        box.exec()
        box.deleteLater()
        return box.clickedButton() is leave

    def _on_stopped(self) -> None:
        self.has_stopped = True
        self.close()
        self.closed.emit()
