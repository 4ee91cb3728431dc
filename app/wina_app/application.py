"""Assembly of the window: services, pages and their controllers."""

import logging
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from PySide6.QtCore import QEventLoop, Qt, QTimer
from PySide6.QtGui import QSessionManager
from PySide6.QtWidgets import QApplication

from wina_app.application_pages import ApplicationPages
from wina_app.jobs.dock import JobsController
from wina_app.jobs.log import LogHandler, LogView
from wina_app.jobs.texts import page_of
from wina_app.pages import PAGES
from wina_app.services.hosted_jobs import ArraySubmission, OtherPrograms
from wina_app.services.process import BackgroundImport, GarbageCollector, LogFile, limit_memory
from wina_app.services.settings import Settings, appearance_of
from wina_app.services.store_thread import StoreThread
from wina_app.services.threads import EngineThread
from wina_app.services.workbench import Workbench
from wina_app.services.workspace import WindowSession
from wina_app.style.theme import apply_theme, current_mode
from wina_app.widgets import file_dialogs
from wina_app.window.files import DatabaseMerge, FileOpener, is_model
from wina_app.window.focus import DisabledShortcutHint, FocusFrame
from wina_app.window.main_window import MainWindow
from wina_app.window.messages import JobNotices
from wina_core.errors import WinaError
from wina_core.files import paths
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.jobs import Event
from wina_core.model_info.small_models import SMALL_MODELS
from wina_core.specs.methods import METHOD_PLUGINS

if TYPE_CHECKING:  # imported on the engine's thread
    from wina_core.engine.client.pool import EnginePool

_SESSION_END_MS = 4_000
"""Time for a window to stop at the session's end; Windows ends a program that takes 5 seconds."""


_FRAME_SECONDS = 0.02
"""Interval of paint events while packages are imported."""
_LISTING_MS = 6000
"""Longest wait for the rows of the Results page before the other pages are made."""


class Application(ApplicationPages):
    """The window and all its services."""

    def __init__(
        self,
        app: QApplication,
        database: str | None = None,
        settings: Settings | None = None,
        engine: EngineThread | None = None,
    ) -> None:
        super().__init__()
        self._app = app
        self._garbage = GarbageCollector(self)
        settings = settings or Settings()
        # Before the engines start, which inherit it as an environment variable.
        preset_limit = limit_memory(settings.preferences.memory)
        apply_theme(app, *appearance_of(settings.preferences))
        app.styleHints().colorSchemeChanged.connect(self._on_desktop_changed)
        self._log_handler = LogHandler()
        self.log = LogView()
        self._log_handler.bridge.record.connect(self.log.add)
        self._file_handler = _file_handler()
        for handler in (self._log_handler, self._file_handler):
            logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(logging.INFO)
        url = database or settings.preferences.database or None
        self.workbench = Workbench(engine or _engine_thread(settings), StoreThread(url), settings)
        self.arrays = ArraySubmission(self.workbench)
        self.other_programs = OtherPrograms(self.workbench)
        reason = f"Set by {MEMORY_VARIABLE}={preset_limit}; unset it to use this setting."
        self.window = MainWindow(self.workbench, self.log, {"memory": reason} if preset_limit else {})
        self.window.page_missing.connect(self.add_page)
        self.workbench.workspace.loading_changed.connect(self.show_loading)
        self._add_jobs()
        self._add_file_menu()
        self.notices = JobNotices(self.workbench, self.window.toasts, self.window.show_page, self.show_log)
        self.focus_frames = FocusFrame(self)
        DisabledShortcutHint(self.window)
        self.session = WindowSession(settings, self.workbench.workspace)
        self.window.restore()
        settings.report_to(self.window.show_notice)
        self.workbench.store.failed.connect(self.window.show_failure)
        self.window.closed.connect(self._on_closed)

    def start(self, model: str | None = None, page: str | None = None, files: Sequence[Path] = ()) -> None:
        """Show the window with its first page, open the database, start the engine, and make all other pages. Open the
        model and the files that are named, else the model of the last session."""
        first = page or self.workbench.settings.page
        first = first if first in PAGES else next(iter(PAGES))
        self._await_packages()
        self.window.show_page(first)
        self.window.show()
        QApplication.processEvents()  # paints it
        self.workbench.start()
        if first == "results":
            self._await_results()
        self._await_libraries()
        for key in PAGES:
            for _ in self.page_steps[key]:
                QApplication.processEvents()
                if self.window.has_stopped:  # closed meanwhile, before the event loop began
                    QTimer.singleShot(0, QApplication.quit)
                    return
        self.window.show_page(self.window.current_page.key)  # again: only now can it take the focus
        if model is not None:
            self.model.open(model)
        elif self.workbench.settings.preferences.reopen and not self.model.was_asked and not any(map(is_model, files)):
            self.session.restore(lambda source: self.model.open(source.location, source.dtype, source.quantization))
        self.open_files(files)

    def open_files(self, files: Sequence[Path]) -> None:
        """Open files on their pages; those after a model wait until it is loaded, since a plan belongs to a model."""
        workspace = self.workbench.workspace
        for number, file in enumerate(files):
            if workspace.loading:
                then = partial(self.open_files, files[number:])
                workspace.loading_changed.connect(then, Qt.ConnectionType.SingleShotConnection)
                return
            self.opening.open(file)

    def _await_results(self) -> None:
        """Wait until Results lists its rows, before other pages block the interpreter for seconds."""
        loop = QEventLoop()
        for ready in (self.results.listed, self.window.closed):
            ready.connect(loop.quit)
        QTimer.singleShot(_LISTING_MS, loop.quit)
        loop.exec()
        QApplication.processEvents()  # paints them

    def _add_jobs(self) -> None:
        view, dock, log = self.window.jobs, self.window.docks["jobs"], self.log
        self.jobs = JobsController(self.workbench, view.list)
        log.follow(self.workbench.jobs)

        def name(title: str) -> None:
            jobs = "Jobs"
            dock.setWindowTitle(f"{jobs}  ·  {title}" if title else jobs)
            dock.toggleViewAction().setText(jobs)

        view.title_changed.connect(name)
        view.list.log_requested.connect(self.show_log)
        view.list.page_requested.connect(lambda job_id: self.window.show_page(page_of(self.workbench.jobs[job_id].job)))

    def _await_libraries(self) -> None:
        """Import numpy and pyqtgraph on a thread: each would block the main thread for 0.1 s.

        Wait for the store too, which the store's thread imports: two threads that import one package at once may see it
        half initialized.
        """
        libraries = BackgroundImport("numpy", "pyqtgraph", "wina_core.store")
        loop = QEventLoop()
        libraries.finished.connect(loop.quit)
        if libraries.is_needed():
            loop.exec()
            libraries.join()

    def _await_packages(self) -> None:
        """Import the methods of installed packages, which pages list, on a thread: the window is painted meanwhile."""
        if not METHOD_PLUGINS.names:
            return
        self.window.show()
        loading = Thread(target=METHOD_PLUGINS.offers, name="import of packages", daemon=True)
        loading.start()
        while loading.is_alive():
            # The window has no page yet that could take input.
            QApplication.processEvents(QEventLoop.ProcessEventsFlag.ExcludeUserInputEvents)
            loading.join(_FRAME_SECONDS)

    def _add_file_menu(self) -> None:
        window, menus = self.window, self.window.menus
        self.opening = FileOpener(
            self.workbench,
            window,
            {
                # Controllers are looked up late: each exists once its page is made.
                "model": lambda path: self.model.open(str(path)),
                "study": lambda path: self.studies.open_file(path),
                "plan": lambda path: self.sparsity.open_plan(path),
            },
        )
        window.dropped.connect(self.opening.open)
        self.merging = DatabaseMerge(self.workbench, window)
        opening, ask, file = self.opening, file_dialogs, menus.file
        asking: tuple[tuple[str, Callable[..., object], Callable[..., object], str], ...] = (
            ("&Open model folder…", ask.choose_model_folder, opening.open, "Ctrl+O"),
            ("Open &GGUF file…", ask.choose_gguf_file, opening.open, "Ctrl+Alt+Shift+F"),
            ("Open &study…", ask.choose_study, opening.open, "Ctrl+Shift+O"),
            ("Open results &database…", ask.choose_database, opening.open, "Ctrl+Alt+O"),
            ("Open database on a ser&ver…", ask.ask_database_address, opening.open_database, "Ctrl+Alt+Shift+O"),
            ("&New results database…", ask.choose_new_database, opening.new_database, "Ctrl+N"),
        )
        for text, choose, then, keys in asking:
            menus.add(file, text, partial(choose, window, then), keys)
        file.addMenu(menus.recent)
        merge = partial(ask.choose_database, window, self.merging.merge_from)
        menus.add(menus.database, "&Merge from…", merge, "Ctrl+Alt+I", "Merge another results database into this")
        file.addMenu(menus.database)
        menus.add(file, "Open the &demo model", lambda: self._open_recent_model("demo"), "Ctrl+D")
        for (name, model), keys in zip(SMALL_MODELS.items(), ("Ctrl+Alt+Shift+S", "Ctrl+Alt+Shift+G"), strict=True):
            menus.add(file, f"Open {model.title}", partial(self._open_recent_model, name), keys)
        file.addSeparator()
        menus.add(file, "&Quit", window.close, "Ctrl+Q")
        menus.recent.aboutToShow.connect(self._fill_recent)
        self._fill_recent()

    def _fill_recent(self) -> None:
        """Fill the menu of recent models, studies and databases."""
        menu, settings = self.window.menus.recent, self.workbench.settings
        menu.clear()
        recent = (
            (settings.recent, self._open_recent_model),
            (settings.studies, lambda file: self.opening.open(Path(file))),
            (settings.recent_databases, self.opening.open_database),
        )
        for locations, do in recent:
            for location in locations:
                # A single "&" would mark a mnemonic.
                menu.addAction(location.replace("&", "&&")).triggered.connect(partial(_call, do, location))
            if locations:
                menu.addSeparator()
        if menu.isEmpty():
            menu.addAction("No recent files yet").setEnabled(False)

    def _open_recent_model(self, location: str) -> None:
        self.window.show_page("model")
        self.model.open(location)

    def _on_desktop_changed(self) -> None:
        if current_mode() == "system":
            apply_theme(self._app, "system")

    def on_signal(self, number: int) -> None:
        """Close the window: after Ctrl-C as its button does, else without a question; at once if it is closing.

        A second SIGHUP changes nothing: the kernel and the shell both send one when a terminal is closed.
        """
        if self.window.is_stopping:
            if number in (signal.SIGINT, signal.SIGTERM):
                os._exit(128 + number)
        elif number == signal.SIGINT:
            self.window.close()
        else:
            self.window.close_unasked()

    def end_session(self, _manager: QSessionManager) -> None:
        """Close without a question when the desktop's session ends, which waits for this for a while."""
        waiting = QEventLoop()
        self.window.closed.connect(waiting.quit)
        QTimer.singleShot(_SESSION_END_MS, waiting, waiting.quit)
        self.window.close_unasked()
        if not self.window.has_stopped:
            waiting.exec()

    def _on_closed(self) -> None:
        try:
            self.session.save()
            self._garbage.stop()
            for handler in (self._log_handler, self._file_handler):
                logging.getLogger().removeHandler(handler)
                handler.close()
        finally:  # or a process without a window would stay behind
            QApplication.quit()


def _call(do: Callable[[str], object], location: str, _checked: bool = False) -> None:
    do(location)


def _engine_thread(settings: Settings) -> EngineThread:
    def open_pool(on_event: Callable[[Event], None]) -> "EnginePool":
        from wina_core.engine.client.pool import open_engines
        from wina_core.remote.machine_client import open_place

        return open_engines(on_event, settings.preferences.engines, light=True, machines=open_place)

    return EngineThread(open_pool)


def _file_handler() -> logging.Handler:
    try:
        handler: logging.Handler = LogFile(paths.log_folder() / "window.log")
    except (OSError, WinaError):  # a log that cannot be written must not keep the window from opening
        handler = logging.NullHandler()
    handler.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler
