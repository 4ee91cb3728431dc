"""The main window: page rail, pages, docks, menus and status line."""

from collections.abc import Callable
from functools import partial
from typing import cast

from PySide6.QtCore import QChildEvent, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QGuiApplication, QUndoGroup, QUndoStack
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QMainWindow,
    QStackedWidget,
    QTabBar,
    QWidget,
)

from wina_app.docks.jobs import JobsView
from wina_app.docks.log import LogView
from wina_app.pages import PAGES, titles
from wina_app.services.preferences import Preferences, appearance_of
from wina_app.services.workbench import Workbench
from wina_app.style.icons import icon
from wina_app.style.theme import GRID, apply_stylesheet, apply_theme
from wina_app.style.translation import tr
from wina_app.widgets.base_page import PRIMARY_KEYS, MessageBar, Page
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.file_dialogs import dropped_path
from wina_app.widgets.help_button import HelpButton
from wina_app.window import about, closing
from wina_app.window.command_palette import CommandPalette, Entry
from wina_app.window.focus_order import controls, next_control, reveal
from wina_app.window.help_dock import HelpView
from wina_app.window.inspector_dock import InspectorView
from wina_app.window.menus import Menus
from wina_app.window.page_rail import PageRail
from wina_app.window.settings_dialog import SettingsDialog
from wina_app.window.shortcuts_dialog import ShortcutsDialog
from wina_app.window.status_line import StatusLine
from wina_app.window.toast import Toasts
from wina_app.window.unfinished_jobs import UnfinishedJobs
from wina_app.window.window_place import clamped

_SAMPLE_MS = 2_000
_LAYOUT_VERSION = 2
_DEFAULT_SIZE = (1280, 800)
_BOTTOM, _RIGHT = Qt.DockWidgetArea.BottomDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea


class MainWindow(QMainWindow):
    """The frame around the pages. Closing it stops engine and store first, after asking if jobs are running."""

    closed = Signal()
    """Engine and store have stopped."""
    dropped = Signal(object)
    """Path of a dropped file or folder."""
    preferences_changed = Signal(object)
    """The new Preferences."""
    page_missing = Signal(str)
    """Key of a page to show that has not been added yet."""

    def __init__(self, workbench: Workbench, log: LogView) -> None:
        super().__init__()
        apply_stylesheet(self)
        self._workbench, self.log = workbench, log
        self.is_stopping = self.has_stopped = self._must_end = False
        self.pages: dict[str, Page] = {}
        self.setWindowTitle("WINA Workbench")
        self.setWindowIcon(icon("app"))
        self.setMinimumSize(GRID * 120, GRID * 75)
        self.setAcceptDrops(True)
        self.setDockOptions(QMainWindow.DockOption.AllowTabbedDocks | QMainWindow.DockOption.AnimatedDocks)
        keys = {key: f"Ctrl+{number}" for number, key in enumerate(PAGES, start=1)}
        self.rail = PageRail({key: (title, keys[key]) for key, title in titles().items()})
        self.rail.page_chosen.connect(self.show_page)
        self._stack = QStackedWidget()
        self.message = MessageBar()
        central = QWidget()
        hbox(central, self.rail, (vbox(None, self.message, (self._stack, 1), spacing=0), 1), spacing=0)
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
        self.toasts = Toasts(self, above=lambda: self.height() - central.geometry().bottom())
        for dock in self.docks.values():
            dock.visibilityChanged.connect(self.toasts.arrange)  # a raised dock would cover them
        self.palette_view = CommandPalette(self)
        self.palette_view.chosen.connect(self._do)
        self.menus = Menus(self.menuBar(), self)
        for key, title in titles().items():
            self.menus.add_page(title, partial(self.show_page, key), keys[key])
        self._fill_menus()
        self._sampler = QTimer(self)
        self._sampler.timeout.connect(self._sample)
        self._sampler.start(_SAMPLE_MS)
        workbench.environment_changed.connect(self._on_environment)
        workbench.jobs.added.connect(self._sample)
        workbench.jobs.ended.connect(self._sample)
        workbench.storing_failed.connect(self.show_failure)
        workbench.detach_refused.connect(self._on_detach_refused)
        workbench.stopped.connect(self._on_stopped)
        workbench.store.remarked.connect(self.show_notice)
        workbench.store.waits.connect(self.show_waiting)
        self._unwritable = ""

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
        """Add the actions of the window; `Application` adds those for files."""
        menus = self.menus
        undo, redo = self._undo.createUndoAction(self), self._undo.createRedoAction(self)
        menus.append(menus.edit, undo, "Ctrl+Z", tr("Undo the last step on this page"))
        menus.append(menus.edit, redo, "Ctrl+Shift+Z", tr("Redo the step that was undone"))
        menus.edit.addSeparator()
        self.settings_action = menus.add(menus.edit, tr("&Settings…"), self.open_settings, "Ctrl+,")
        keys = {"jobs": "Ctrl+J", "log": "Ctrl+L", "inspector": "Ctrl+I", "help": "Ctrl+Shift+H"}
        for key, dock in self.docks.items():
            tip = tr("Show or hide {dock}", dock=dock.windowTitle())
            menus.append(menus.view, dock.toggleViewAction(), keys[key], tip)
        menus.view.addSeparator()
        menus.add_themes(self.set_theme)
        full = Qt.WindowState.WindowFullScreen
        menus.add(menus.view, tr("Full &screen"), lambda: self.setWindowState(self.windowState() ^ full), "F11")
        tip = tr("Move all docks back to their places")
        menus.add(menus.view, tr("&Reset layout"), self.reset_layout, "Ctrl+Shift+R", tip)
        self.primary_action = menus.add(
            menus.run, tr("Primary action of the page"), lambda: self.current_page.primary.click(), PRIMARY_KEYS
        )
        self.cancel_all = menus.add(menus.run, tr("&Cancel all jobs"), self._cancel_all, "Ctrl+Shift+Del")
        self.unfinished = UnfinishedJobs(self._workbench, menus, self.toasts)
        menus.run.aboutToShow.connect(self._show_primary)
        menus.add(menus.help, tr("Command &palette"), self.open_palette, "Ctrl+K", tr("Search all commands"))
        menus.add(menus.help, tr("&Guide"), lambda: self.show_help("index.md"), "F1")
        menus.add(
            menus.help,
            tr("&Help on this page"),
            lambda: self.show_help(f"pages.md#{self.current_page.key}"),
            "Shift+F1",
        )
        menus.add(menus.help, tr("&Keyboard shortcuts"), self._open_shortcuts, "Ctrl+/")
        menus.add(menus.help, tr("&About WINA Workbench"), lambda: about.show(self, self._workbench), "Ctrl+F1")

    def open_palette(self) -> None:
        """Open the palette with all commands."""
        self._show_primary()
        self.menus.recent.aboutToShow.emit()  # which fills it
        self.palette_view.open(self.menus.entries(self.pages, self.current_page))

    def _do(self, entry: Entry) -> None:
        if entry.page:
            self.show_page(entry.page)
        if entry.action.isEnabled():
            entry.action.trigger()
        else:
            self.show_notice(entry.action.toolTip() or tr("This command is not available now."))

    def open_settings(self) -> None:
        """Open the settings, which apply as they are changed."""
        dialog = SettingsDialog(self, self._workbench.settings.preferences)
        dialog.changed.connect(self.apply_preferences)
        dialog.open()

    def apply_preferences(self, preferences: Preferences) -> None:
        """Apply and store preferences."""
        before = self._workbench.settings.preferences
        self._workbench.settings.update(**preferences.model_dump())
        if appearance_of(before) != appearance_of(preferences):
            apply_theme(cast(QApplication, QApplication.instance()), *appearance_of(preferences))
        self.menus.themes[preferences.theme].setChecked(True)
        self.preferences_changed.emit(preferences)

    def _open_shortcuts(self) -> None:
        ShortcutsDialog(self, self.menus.entries(self.pages, self.current_page)).open()

    def show_help(self, topic: str) -> None:
        """Open the guide at a chapter, or at a heading after a "#"."""
        self.docks["help"].show()
        self.docks["help"].raise_()
        self.help.show_topic(topic)

    def show_dock(self, key: str) -> None:
        """Raise and focus a dock."""
        dock = self.docks[key]
        dock.show()
        dock.raise_()
        found = controls([dock])
        if found:
            found[0].setFocus(Qt.FocusReason.OtherFocusReason)

    def reset_layout(self) -> None:
        """Move all docks to their default places."""
        self.restoreState(self._first_layout, _LAYOUT_VERSION)

    def set_theme(self, mode: str) -> None:
        """Apply and store an appearance."""
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
        """Add a page at its place."""
        self.pages[page.key] = page
        self.pages = {key: self.pages[key] for key in PAGES if key in self.pages}
        self._stack.addWidget(page)
        if page.inspector is not None:
            self.inspector.addWidget(page.inspector)
        if page.undo_stack is not None:
            self._undo.addStack(page.undo_stack)
        for mark in page.findChildren(HelpButton):
            mark.requested.connect(self.show_help)
        page.crumb_clicked.connect(self.show_page)

    @property
    def current_page(self) -> Page:
        """The page shown."""
        return next(page for page in self.pages.values() if page is self._stack.currentWidget())

    def show_page(self, key: str) -> None:
        """Show a page, which is created if necessary, and restore its focus."""
        if key not in self.pages:
            self.page_missing.emit(key)
        if (page := self.pages.get(key)) is None:
            return
        before = page.focusWidget()
        self._stack.setCurrentWidget(page)
        self.rail.select(key)
        self.menus.show_page(page)
        self._undo.setActiveStack(cast(QUndoStack, page.undo_stack))  # None is allowed, too
        self.inspector.show_inspector(page.inspector)
        found = [*controls([page.start] if page.start else []), *controls([page.body]), *controls([page])]
        if found:
            (before if before in controls([page.body]) else found[0]).setFocus(Qt.FocusReason.OtherFocusReason)

    def childEvent(self, event: QChildEvent) -> None:
        """Keep the tabs of docks that share a place out of the Tab order: docks have shortcuts."""
        child = event.child()
        if event.polished() and isinstance(child, QTabBar):
            child.setFocusPolicy(Qt.FocusPolicy.NoFocus)
            child.setAccessibleName(tr("Docks"))

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Move the focus through the page, then the docks, then the rail."""
        sections = [self.message, self._stack, *self.docks.values(), self.rail, *self.toasts.shown]
        here = [section for section in sections if not section.isWindow()]  # a floating dock has its own order
        found = next_control(here, self.focusWidget(), forward=forward)
        if found is None:
            return False
        self.setAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)  # without it sliders and tabs do not show focus
        found.setFocus(Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason)
        reveal(found)
        return True

    def show_failure(self, text: str) -> None:
        """Show an error that concerns the whole window."""
        self.message.show_message("error", text)

    def clear_failure(self) -> None:
        """Hide the error, and the same error on pages."""
        self.message.hide()
        for page in self.pages.values():
            page.message.withdraw(self.message.label.text())

    def show_notice(self, text: str) -> None:
        """Show a notice that concerns the whole window."""
        self.message.show_message("notice", text)

    def show_waiting(self, results: int, reason: str) -> None:
        """Show that nothing can be stored and why, until it can; with the number of results that wait."""
        self.status.show_waiting(results, reason)
        text = ""
        if results:
            text = tr("Results wait in memory until they can be stored, and jobs continue. {reason}", reason=reason)
        elif reason:
            text = tr("Nothing can be stored now, but stored results can be read. {reason}", reason=reason)
        if text == self._unwritable:
            return
        self.message.withdraw(self._unwritable)
        self._unwritable = text
        if text:
            self.show_notice(text)

    def say(self, word: str, text: str, button: str, do: Callable[[], object]) -> None:
        """Show a toast with a button."""
        self.toasts.say(word, text, button, do)

    def show_database(self, name: str, url: str) -> None:
        """Show the name of the results database."""
        self.status.show_database(name, url)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Accept one file or folder; its kind is checked on dropping."""
        if dropped_path(event) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Emit `dropped`."""
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
        if self.is_stopping:
            state = "stopping"
        elif self._workbench.environment is None:
            state = "starting"
        elif pid is None:
            state = "stopped"
        else:
            state = "working" if running else "ready"
        self.status.show_engine(state)
        self.status.show_memory(pid)

    # ---- opening and closing ---------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Restore place and layout, moved onto a screen if necessary."""
        settings = self._workbench.settings
        self.resize(*_DEFAULT_SIZE)
        if settings.geometry:
            self.restoreGeometry(settings.geometry)
        if settings.layout:
            self.restoreState(settings.layout, _LAYOUT_VERSION)
        screen = QGuiApplication.screenAt(self.frameGeometry().center()) or QGuiApplication.primaryScreen()
        self.setGeometry(clamped(self.geometry(), screen.availableGeometry()))

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask if jobs are running; then stop everything, and close once that is done."""
        if self.has_stopped:
            event.accept()
            return
        event.ignore()
        asks = self._workbench.jobs.active and self._workbench.settings.confirm_quit
        how = self.confirm_quit() if asks and not self.is_stopping else "cancel"
        if how != "stay":
            self._stop(self._workbench.stop if how == "cancel" else self._workbench.keep_running)

    def close_unasked(self) -> None:
        """Close without a question, even while one is open: the session ends. Runs are interrupted, not cancelled."""
        self._must_end = True
        self._stop(partial(self._workbench.stop, interrupted=True))

    def _stop(self, stop: Callable[[], object]) -> None:
        """Stop engine and store, once; `closed` follows."""
        if self.is_stopping:
            return
        self._workbench.settings.update(
            geometry=self.saveGeometry().data(),
            layout=self.saveState(_LAYOUT_VERSION).data(),
            page=self.current_page.key,
        )
        self._sampler.stop()
        self._show_stopping(True)
        stop()

    def _show_stopping(self, stopping: bool) -> None:
        self.is_stopping = stopping
        self._sample()
        self._stack.setEnabled(not stopping)
        self.rail.setEnabled(not stopping)

    def _on_detach_refused(self, text: str) -> None:
        """Continue in this window, unless the session ends."""
        if self._must_end:
            self._workbench.stop(interrupted=True)
            return
        self._sampler.start(_SAMPLE_MS)
        self._show_stopping(False)
        self.show_failure(text)

    def confirm_quit(self) -> closing.Choice:
        """Ask what becomes of the jobs."""
        return closing.ask(self, len(self._workbench.jobs.active))

    def _on_stopped(self) -> None:
        self.has_stopped = True
        self.close()
        self.closed.emit()
