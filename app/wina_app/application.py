"""Assembly of the window: services, pages and their controllers."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEventLoop, QObject, QTimer
from PySide6.QtGui import QSessionManager
from PySide6.QtWidgets import QApplication

from wina_app.docks.jobs_controller import JobsController
from wina_app.docks.log import LogHandler, LogView
from wina_app.docks.notifications import JobNotices
from wina_app.jobs.texts import page_of
from wina_app.pages import PAGES
from wina_app.services.engine_thread import EngineThread
from wina_app.services.garbage import GarbageCollector
from wina_app.services.log_file import LogFile
from wina_app.services.preferences import appearance_of
from wina_app.services.session import Session
from wina_app.services.settings import Settings
from wina_app.services.store_thread import StoreThread
from wina_app.services.workbench import Workbench
from wina_app.style.theme import apply_theme, current_mode
from wina_app.style.translation import tr
from wina_app.widgets import file_dialogs
from wina_app.widgets.base_page import Page
from wina_app.window.disabled_shortcut_hint import DisabledShortcutHint
from wina_app.window.file_opener import FileOpener
from wina_app.window.focus_frame import FocusFrame
from wina_app.window.main_window import MainWindow
from wina_core.engine.host.client import open_host
from wina_core.errors import WinaError
from wina_core.files import paths

_SESSION_END_MS = 4_000
"""Time for a window to stop at the session's end; Windows ends a program that takes 5 seconds."""

if TYPE_CHECKING:  # the pages are loaded once the window is painted
    from wina_app.heatmap.editable_heatmap import EditableHeatmap
    from wina_app.pages.evaluate.controller import EvaluateController
    from wina_app.pages.gate_inspector.controller import GateController
    from wina_app.pages.latency.controller import LatencyController
    from wina_app.pages.model.controller import ModelController
    from wina_app.pages.playground.controller import PlaygroundController
    from wina_app.pages.results.controller import ResultsController
    from wina_app.pages.rotation.controller import RotationController
    from wina_app.pages.sparsity.controller import SparsityController
    from wina_app.pages.studies.controller import StudiesController
    from wina_core.specs.studies import StudySpec

_SWITCH_SECONDS = 0.00005
"""Time slice of a computing thread while another waits for the interpreter; Python's default is 0.005. Many Qt calls of
the main thread release the interpreter: with the default, showing a page took up to 490 ms while the store's thread
computed, with 0.0002 it took 76 ms. Regaining it takes 0.38 ms with 0.0002 and 0.23 ms with this."""

_LISTING_MS = 3000
"""Longest wait for the rows of the Results page before the other pages are made."""


class Application(QObject):
    """The window and all its services. A page's controller exists once the page is made."""

    model: "ModelController"
    rotation: "RotationController"
    sparsity: "SparsityController"
    gate: "GateController"
    evaluate: "EvaluateController"
    latency: "LatencyController"
    playground: "PlaygroundController"
    results: "ResultsController"
    studies: "StudiesController"

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
        sys.setswitchinterval(_SWITCH_SECONDS)
        settings = settings or Settings()
        apply_theme(app, *appearance_of(settings.preferences))
        app.styleHints().colorSchemeChanged.connect(self._on_desktop_changed)
        self._log_handler = LogHandler()
        self.log = LogView()
        self._log_handler.bridge.record.connect(self.log.add)
        self._file_handler = _file_handler()
        for handler in (self._log_handler, self._file_handler):
            logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(logging.INFO)
        place = database or settings.preferences.database or None
        self.workbench = Workbench(engine or _engine_thread(settings, place), StoreThread(place), settings)
        self.window = MainWindow(self.workbench, self.log)
        self._make_page: dict[str, Callable[[], None]] = {
            "model": self._make_model,
            "rotation": self._make_rotation,
            "sparsity": self._make_sparsity,
            "evaluate": self._make_evaluate,
            "latency": self._make_latency,
            "playground": self._make_playground,
            "results": self._make_results,
            "studies": self._make_studies,
        }
        self.window.page_missing.connect(self._add_page)
        self.workbench.workspace.loading_changed.connect(self._show_loading)
        self._add_jobs()
        self._add_file_menu()
        self.notices = JobNotices(self.workbench, self.window, self._show_log)
        self.focus_frames = FocusFrame(self)
        DisabledShortcutHint(self.window)
        self.session = Session(settings, self.workbench.workspace)
        self.window.restore()
        settings.report_to(self.window.show_notice)
        self.workbench.store.failed.connect(self.window.show_failure)
        self.window.closed.connect(self._on_closed)

    def start(self, model: str | None = None, page: str | None = None) -> None:
        """Show the window with its first page, open the database, start the engine, and make all other pages. Open a
        model if one is named."""
        first = page or self.workbench.settings.page
        first = first if first in PAGES else next(iter(PAGES))
        self.window.show_page(first)
        self.window.show()
        QApplication.processEvents()  # paints it
        self.workbench.start()
        if first == "results":
            self._await_results()
        for key in PAGES:
            self._add_page(key)
            QApplication.processEvents()
            if self.window.has_stopped:  # closed meanwhile, before there was an event loop that could end
                QTimer.singleShot(0, QApplication.quit)
                return
        self.window.show_page(self.window.current_page.key)  # now that it can take the focus
        if model is not None:
            self.model.open(model)
        elif self.workbench.settings.preferences.reopen and not self.model.was_asked:
            self.session.restore(lambda source: self.model.open(source.location, source.dtype, source.quantization))

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
        self.jobs = JobsController(self.workbench, view)
        log.follow(self.workbench.jobs)

        def name(title: str) -> None:
            jobs = tr("Jobs")
            dock.setWindowTitle(f"{jobs}  ·  {title}" if title else jobs)
            dock.toggleViewAction().setText(jobs)

        view.title_changed.connect(name)
        view.log_requested.connect(self._show_log)
        view.page_requested.connect(lambda job_id: self.window.show_page(page_of(self.workbench.jobs[job_id].job)))

    def _show_log(self, job_id: str) -> None:
        self.log.show_job(job_id)
        self.window.show_dock("log")

    def _add_page(self, key: str) -> None:
        """Make a page, unless it was shown before its turn."""
        if key in self._make_page and key not in self.window.pages:
            self._make_page[key]()
            self._show_loading(key)

    # Pages are imported once the window is painted: they load pyqtgraph and numpy, which take longer than the frame.

    def _make_model(self) -> None:
        from wina_app.pages.model.wiring import wire

        self.model = wire(self.workbench, self.window.add_page, self.open_results)

    def _make_rotation(self) -> None:
        from wina_app.pages.rotation.wiring import wire

        self.rotation = wire(self.workbench, self.window.add_page)

    def _make_sparsity(self) -> None:
        from wina_app.pages.sparsity.wiring import wire

        self.sparsity = wire(self.workbench, self.window.add_page, self._add_gate_inspector, self.evaluate_plan)

    def _add_gate_inspector(self, page: Page, heatmap: "EditableHeatmap") -> None:
        from wina_app.pages.gate_inspector.wiring import wire

        self.gate = wire(self.workbench, page, heatmap, self._raise_inspector)

    def _raise_inspector(self) -> None:
        self.window.dock_area.show("inspector")

    def _make_evaluate(self) -> None:
        from wina_app.pages.evaluate.wiring import wire

        self.evaluate = wire(self.workbench, self.window.add_page, self.show_run)

    def _make_latency(self) -> None:
        from wina_app.pages.latency.wiring import wire

        self.latency = wire(self.workbench, self.window.add_page)

    def _make_playground(self) -> None:
        from wina_app.pages.playground.wiring import wire

        self.playground = wire(self.workbench, self.window.add_page)

    def _make_results(self) -> None:
        from wina_app.pages.results.wiring import wire

        self.results = wire(self.workbench, self.window.add_page, self.window.preferences_changed)

    def _make_studies(self) -> None:
        from wina_app.pages.studies.wiring import wire

        self.studies = wire(self.workbench, self.window.add_page, self.show_study, self.show_run)

    def _show_loading(self, *keys: str) -> None:
        """Show on pages that need a model that one is being loaded."""
        workspace = self.workbench.workspace
        for key in keys or self.window.pages:
            self.window.pages[key].show_awaited_model(workspace.loading, workspace.breadcrumb())

    def evaluate_plan(self) -> None:
        """Set the Evaluate page to the plan being edited."""
        self._add_page("evaluate")
        self.evaluate.choose_plan()

    def show_study(self, study: "StudySpec") -> None:
        """Show a study's runs on the Results page, or its sweep on the Latency page."""
        page = "results" if study.models else "latency"
        self._add_page(page)
        if study.models:
            self.results.show_study(study)
        self.window.show_page(page)

    def show_run(self, run: str) -> None:
        """Select the run with this hash on the Results page."""
        self._add_page("results")
        self.window.show_page("results")
        self.results.selection.select((run,))

    def _add_file_menu(self) -> None:
        window, menus = self.window, self.window.menus
        self.opening = FileOpener(
            self.workbench,
            window,
            {
                "model": lambda path: self.model.open(str(path)),
                "study": lambda path: self.studies.open_file(path),
                "plan": lambda path: self.sparsity.open_plan(path),
            },
        )
        window.dropped.connect(self.opening.open)
        opening = self.opening
        ask = file_dialogs
        menus.add(
            menus.file, tr("&Open model folder…"), lambda: ask.choose_model_folder(window, opening.open), "Ctrl+O"
        )
        menus.add(menus.file, tr("Open &study…"), lambda: ask.choose_study(window, opening.open), "Ctrl+Shift+O")
        menus.add(
            menus.file, tr("Open results &database…"), lambda: ask.choose_database(window, opening.open), "Ctrl+Alt+O"
        )
        menus.add(
            menus.file,
            tr("&New results database…"),
            lambda: ask.choose_new_database(window, opening.new_database),
            "Ctrl+N",
        )
        menus.file.addMenu(menus.recent)
        menus.add(menus.file, tr("Open the &demo model"), lambda: self._open_recent_model("demo"), "Ctrl+D")
        menus.file.addSeparator()
        menus.add(menus.file, tr("&Quit"), window.close, "Ctrl+Q")
        menus.recent.aboutToShow.connect(self._fill_recent)
        self._fill_recent()

    def _fill_recent(self) -> None:
        """Fill the menu of recent models, studies and databases."""
        menu, settings = self.window.menus.recent, self.workbench.settings
        menu.clear()
        found = (
            (settings.recent, self._open_recent_model),
            (settings.studies, lambda file: self.opening.open(Path(file))),
            (settings.recent_databases, self.opening.open_database),
        )
        for locations, do in found:
            for location in locations:
                menu.addAction(location.replace("&", "&&")).triggered.connect(partial(_call, do, location))
            if locations:
                menu.addSeparator()
        if menu.isEmpty():
            menu.addAction(tr("No recent files yet")).setEnabled(False)

    def open_results(self) -> None:
        """Show the results of this database, or ask for another one if it is empty."""

        def go(stored: bool) -> None:
            if stored:
                self.window.show_page("results")
            else:
                file_dialogs.choose_database(self.window, self.opening.open)

        self.workbench.store.ask(lambda store: bool(store.studies()), go, self.window.show_failure)

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


def _engine_thread(settings: Settings, database: str | None) -> EngineThread:
    return EngineThread(partial(open_host, engines=settings.preferences.engines, database=database))


def _file_handler() -> logging.Handler:
    try:
        handler: logging.Handler = LogFile(paths.log_folder() / "window.log")
    except (OSError, WinaError):  # a log that cannot be written must not keep the window from opening
        handler = logging.NullHandler()
    handler.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler
