"""The main window: page rail, pages, docks, menus and status line."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from pydantic_core import to_jsonable_python
from PySide6.QtCore import QChildEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QKeySequence, QResizeEvent, QUndoGroup, QUndoStack
from PySide6.QtWidgets import QApplication, QMainWindow, QTabBar, QWidget

from wina_app.jobs.dock import JobLine, JobsView
from wina_app.jobs.log import LogView
from wina_app.pages import PAGES
from wina_app.services.settings import Preferences, appearance_of
from wina_app.services.workbench import Workbench
from wina_app.style.icons import icon
from wina_app.style.theme import GRID, apply_stylesheet, apply_theme
from wina_app.widgets.base_page import PRIMARY_KEYS, Page
from wina_app.widgets.boxes import hbox
from wina_app.widgets.file_dialogs import dropped_path
from wina_app.widgets.help_button import HelpButton
from wina_app.window.command_palette import CommandPalette, palette_entries
from wina_app.window.dialogs import ClosingChoice, ask_closing, show_about
from wina_app.window.docks import Docks, InspectorView, ThinSeparators
from wina_app.window.focus import controls, next_control, reveal
from wina_app.window.help_dock import HelpView
from wina_app.window.menus import Entry, Menus, RunOn, UnfinishedJobs
from wina_app.window.messages import MessageWindow
from wina_app.window.page_rail import PageRail
from wina_app.window.settings_dialog import SettingsDialog
from wina_app.window.status_line import StatusLine

_REMEMBER_MS = 5_000
_DEFAULT_SIZE = QSize(1280, 800)
_FRAME = QSize(2 * GRID, 6 * GRID)
"""Room for the title bar that the desktop gives the window."""

_log = logging.getLogger(__name__)


class MainWindow(MessageWindow):
    """The frame around the pages. Closing it stops engine and store first, after asking if jobs are running."""

    closed = Signal()
    """Engine and store have stopped."""
    dropped = Signal(object)
    """Path of a dropped file or folder."""
    preferences_changed = Signal(object)
    """The new Preferences."""
    page_missing = Signal(str)
    """Key of a page to show that has not been added yet."""

    def __init__(self, workbench: Workbench, log: LogView, fixed_settings: Mapping[str, str]) -> None:
        """Make the frame; `fixed_settings` are reasons why some settings have no effect now, by name."""
        super().__init__()
        self._style = ThinSeparators(self)  # a style sheet here would cost as much again for every widget below it
        self.setStyle(self._style)
        self._workbench, self.log, self._fixed_settings = workbench, log, fixed_settings
        self.is_stopping = self.has_stopped = self._must_end = False
        self.setWindowTitle("WINA Workbench")
        self.setWindowIcon(icon("app"))
        self.setMinimumSize(GRID * 120, GRID * 75)
        self.setAcceptDrops(True)
        self.setDockOptions(QMainWindow.DockOption.AllowTabbedDocks | QMainWindow.DockOption.AnimatedDocks)
        keys = {key: f"Ctrl+{number}" for number, key in enumerate(PAGES, start=1)}
        self.rail = PageRail(keys)
        self.rail.page_chosen.connect(self.show_page)
        hbox(self.central, self.rail, (self.stack, 1), spacing=0)
        self.setCentralWidget(self.central)
        apply_stylesheet(self.message)
        self.jobs = JobsView(workbench.jobs)
        self.inspector, self.help = InspectorView(), HelpView()
        self.dock_area = Docks(self)
        line = JobLine(workbench.jobs)
        for asking in (self.jobs.list, line):
            asking.pause_requested.connect(workbench.pause)
            asking.resume_requested.connect(workbench.resume)
            asking.cancel_requested.connect(workbench.cancel)
        self.dock_area.add("jobs", "Jobs", self.jobs, line=line)
        self.dock_area.add("log", "Log", self.log, line=self.log.last)
        self.dock_area.add("inspector", "Inspector", self.inspector)
        self.dock_area.add("help", "Help", self.help)
        self.dock_area.arrange()
        self.docks = self.dock_area.by_key
        self.status = StatusLine(workbench, self.jobs.title_changed)
        self.setStatusBar(self.status)
        self._undo = QUndoGroup(self)
        for dock in self.docks.values():
            dock.visibilityChanged.connect(self.toasts.arrange)  # a raised dock would cover them
        self.palette_view = CommandPalette(self)
        self.palette_view.chosen.connect(self._do)
        self.menus = Menus(self.menuBar(), self)
        for key in PAGES:
            self.menus.add_page(key.capitalize(), partial(self.show_page, key), keys[key])
        self._fill_menus()
        self.run_on = RunOn(workbench.machines, self.menus, self.status, self.open_machines, self)
        workbench.machines.failed.connect(self.show_failure)
        workbench.storing_failed.connect(self.show_failure)
        workbench.background_refused.connect(self._on_background_refused)
        workbench.stopped.connect(self._on_stopped)
        workbench.store.unwritable.connect(self.show_unwritable)
        # Saved while the window is open: a program that is killed gets no chance to.
        self._memory = QTimer(self)
        self._memory.timeout.connect(self._remember)
        self._memory.start(_REMEMBER_MS)

    # ---- menus -----------------------------------------------------------------------------------------------------

    def _fill_menus(self) -> None:
        """Add the actions of the window; `Application` adds those for files."""
        menus = self.menus
        undo, redo = self._undo.createUndoAction(self), self._undo.createRedoAction(self)
        menus.append(menus.edit, undo, "Ctrl+Z", "Undo the last step on this page")
        menus.append(menus.edit, redo, "Ctrl+Shift+Z", "Redo the step that was undone; Ctrl+Y does it, too")
        redo.setShortcuts([QKeySequence("Ctrl+Shift+Z"), QKeySequence("Ctrl+Y")])
        menus.edit.addSeparator()
        self.settings_action = menus.add(menus.edit, "&Settings…", self.open_settings, "Ctrl+,")
        keys = {"jobs": "Ctrl+J", "log": "Ctrl+L", "inspector": "Ctrl+I", "help": "Ctrl+Shift+H"}
        for key, dock in self.docks.items():
            tip = f"Show or hide {dock.windowTitle()}"
            menus.append(menus.view, dock.toggleViewAction(), keys[key], tip)
        tip = "Move to the buttons of an error, a notice or a toast; Esc dismisses it"
        menus.add(menus.view, "Go to the &message", self.focus_message, "Ctrl+M", tip)
        tip = "Collapse Jobs and Log to a line each, or show all of them"
        menus.add(menus.view, "&Collapse docks", self.dock_area.toggle, "Ctrl+Shift+J", tip)
        menus.view.addSeparator()
        menus.add_themes(self.set_theme)
        full = Qt.WindowState.WindowFullScreen
        menus.add(menus.view, "Full &screen", lambda: self.setWindowState(self.windowState() ^ full), "F11")
        tip = "Move all docks back to their places"
        menus.add(menus.view, "&Reset layout", self.reset_layout, "Ctrl+Shift+R", tip)
        self.primary_action = menus.add(menus.run, "Primary action of the page", self._click_primary, PRIMARY_KEYS)
        self.primary_action.setAutoRepeat(False)  # held down, it would start and cancel in turns
        self.cancel_all = menus.add(menus.run, "&Cancel all jobs", self._cancel_all, "Ctrl+Shift+Del")
        self.unfinished = UnfinishedJobs(self._workbench, menus, self.toasts)
        menus.run.aboutToShow.connect(self._update_run_menu)
        menus.add(menus.help, "Command &palette", self.open_palette, "Ctrl+K", "Search all commands, with their keys")
        menus.add(menus.help, "&Guide", lambda: self.show_help("index.md"), "F1")
        menus.add(
            menus.help,
            "&Help on this page",
            lambda: self.show_help(f"pages.md#{self.current_page.key}"),
            "Shift+F1",
        )
        menus.add(menus.help, "&About WINA Workbench", lambda: show_about(self, self._workbench), "Ctrl+F1")

    def open_palette(self) -> None:
        """Open the palette with all commands."""
        self._update_run_menu()
        self.menus.recent.aboutToShow.emit()  # fills it
        self.palette_view.open(palette_entries(self.menus, self.primary_action, self.pages, self.current_page))

    def _click_primary(self) -> None:
        """Press the button of the current page, or say why it is disabled."""
        button = self.current_page.primary
        if button.isEnabled() and not button.isHidden():
            button.click()
        elif button.toolTip():
            self.show_notice(button.toolTip())

    def _made(self, key: str) -> Page | None:
        """Return a page, which is made if necessary."""
        if key not in self.pages:
            self.page_missing.emit(key)
        return self.pages.get(key)

    def _do(self, entry: Entry) -> None:
        if entry.page:
            self.show_page(entry.page)
        if entry.action.isEnabled():
            entry.trigger()
        else:
            self.show_notice(entry.action.toolTip() or "This command is not available now.")

    def open_settings(self) -> None:
        self._open_settings().open()

    def open_machines(self) -> None:
        dialog = self._open_settings()
        dialog.show_machines()
        dialog.open()

    def _open_settings(self) -> SettingsDialog:
        from wina_app.window.machines_page import MachinesPage  # few starts need it

        page = MachinesPage(self._workbench.machines)
        dialog = SettingsDialog(self, self._workbench.settings.preferences, self._fixed_settings, page)
        dialog.changed.connect(self.apply_preferences)
        return dialog

    def apply_preferences(self, preferences: Preferences) -> None:
        """Apply and store preferences."""
        before = self._workbench.settings.preferences
        self._workbench.settings.update(**preferences.model_dump())
        if appearance_of(before) != appearance_of(preferences):
            apply_theme(cast(QApplication, QApplication.instance()), *appearance_of(preferences))
        self.menus.themes[preferences.theme].setChecked(True)
        self.preferences_changed.emit(preferences)

    def show_help(self, topic: str) -> None:
        """Open the guide at a chapter, or at a heading after a "#"."""
        self.dock_area.show("help")
        self.help.show_topic(topic)

    def show_dock(self, key: str) -> None:
        """Raise and focus a dock."""
        dock = self.dock_area.show(key)
        reachable = controls([dock])
        if reachable:
            reachable[0].setFocus(Qt.FocusReason.OtherFocusReason)

    def reset_layout(self) -> None:
        self.dock_area.reset()

    def set_theme(self, mode: str) -> None:
        self.apply_preferences(self._workbench.settings.preferences.model_copy(update={"theme": mode}))

    def _update_run_menu(self) -> None:
        self.primary_action.setText(self.current_page.primary.text() or "No action on this page")
        self.cancel_all.setEnabled(bool(self._workbench.jobs.active))

    def _cancel_all(self) -> None:
        for entry in self._workbench.jobs.active:
            self._workbench.cancel(entry.id)

    # ---- pages -----------------------------------------------------------------------------------------------------

    def add_page(self, page: Page) -> None:
        """Add a page; `pages` keeps the order of the rail."""
        self.pages[page.key] = page
        self.pages = {key: self.pages[key] for key in PAGES if key in self.pages}
        self.stack.addWidget(page)
        if page.inspector is not None:
            self.inspector.addWidget(page.inspector)
        if page.undo_stack is not None:
            self._undo.addStack(page.undo_stack)
        for mark in page.findChildren(HelpButton):
            mark.requested.connect(self.show_help)
        page.crumb_clicked.connect(self.show_page)
        page.saved.connect(self.say_saved)
        self._restore_view(page)

    @property
    def current_page(self) -> Page:
        return next(page for page in self.pages.values() if page is self.stack.currentWidget())

    def show_page(self, key: str) -> None:
        """Show a page, which is created if necessary, and restore its focus."""
        if (page := self._made(key)) is None:
            return
        apply_stylesheet(page)  # after it was added: each change of parent styles all widgets again
        # Read before the page is shown, which moves the focus into it.
        before = page.focusWidget()
        self.stack.setCurrentWidget(page)
        self.rail.select(key)
        self.menus.show_page(page)
        self._undo.setActiveStack(cast(QUndoStack, page.undo_stack))  # None is allowed, too
        if page.inspector is not None:
            self.inspector.setCurrentWidget(page.inspector)
        reason = "This page has nothing to inspect; Sparsity and Results have an inspector."
        self.dock_area.offer("inspector", "" if page.inspector is not None else reason)
        reachable = [*controls([page.start] if page.start else []), *controls([page.body]), *controls([page])]
        if reachable:
            (before if before in controls([page.body]) else reachable[0]).setFocus(Qt.FocusReason.OtherFocusReason)

    def childEvent(self, event: QChildEvent) -> None:
        """Style new children, and keep the tabs of docks that share a place out of the Tab order."""
        child = event.child()
        if event.polished() and isinstance(child, QWidget) and child is not self.central:
            apply_stylesheet(child)  # menu bar, docks, dialogs, toasts
        if event.polished() and isinstance(child, QTabBar):
            child.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # docks have shortcuts
            child.setAccessibleName("Docks")

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Move the focus through the page, then the docks, then the rail."""
        sections = [self.message, self.stack, *self.docks.values(), self.rail, *self.toasts.open]
        # A floating dock has its own order; one behind another in the same place is out of sight.
        visible = [section for section in sections if not section.isWindow() and not section.visibleRegion().isEmpty()]
        control = next_control(visible, self.focusWidget(), forward=forward)
        if control is None:
            return False
        self.setAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)  # without it sliders and tabs do not show focus
        control.setFocus(Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason)
        reveal(control)
        return True

    def show_database(self, name: str, url: str) -> None:
        self.status.show_database(name, url)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.dock_area.fit()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_path(event) is not None:  # its kind is checked on dropping: that reads the file
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        path = dropped_path(event)
        if path is not None:
            event.acceptProposedAction()
            self.dropped.emit(path)

    # ---- opening and closing ---------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Restore place and layout; Qt moves the window onto a screen if necessary."""
        settings = self._workbench.settings
        self.resize(_DEFAULT_SIZE.boundedTo(self.screen().availableSize() - _FRAME))
        if settings.geometry:
            self.restoreGeometry(settings.geometry)
        self.dock_area.restore(settings)

    def _restore_view(self, page: Page) -> None:
        """Restore the view of a page, if there is one and the user wants the last session back."""
        settings = self._workbench.settings
        state = settings.views.get(page.key)
        if state and settings.preferences.reopen:
            try:
                page.restore_view(state)
            except Exception:  # a page must open, whatever an older version has stored
                _log.exception("The last view of the page %s was not restored.", page.key)

    def _view_states(self) -> dict[str, dict[str, object]]:
        """Return the views to store; a page that has not been made keeps its stored one."""
        views = dict(self._workbench.settings.views)
        for key, page in self.pages.items():
            try:
                views[key] = to_jsonable_python(page.view_state())
            except Exception:  # the window must close
                _log.exception("The view of the page %s was not stored.", key)
        return views

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
        self._remember()
        self._memory.stop()
        self._show_stopping(True)
        stop()

    def _remember(self) -> None:
        """Save what the next start restores, if it has changed."""
        if not self.pages:
            return
        settings = self._workbench.settings
        state = {
            "geometry": self.saveGeometry().data(),
            "page": self.current_page.key,
            "views": self._view_states(),
            **self.dock_area.state(),
        }
        if any(getattr(settings, name) != value for name, value in state.items()):
            settings.update(**state)

    def _show_stopping(self, stopping: bool) -> None:
        self.is_stopping = stopping
        self.status.show_stopping(stopping)
        self.stack.setEnabled(not stopping)
        self.rail.setEnabled(not stopping)

    def _on_background_refused(self, text: str) -> None:
        """Continue in this window, unless the session ends."""
        if self._must_end:
            self._workbench.stop(interrupted=True)
            return
        self._memory.start(_REMEMBER_MS)
        self._show_stopping(False)
        self.show_failure(text)

    def confirm_quit(self) -> ClosingChoice:
        return ask_closing(self, len(self._workbench.jobs.active))

    def _on_stopped(self) -> None:
        self.has_stopped = True
        self.close()
        self.closed.emit()
