"""Puts the window together: pages, their controllers, and what connects them."""

import logging
import sys
from collections.abc import Callable
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from wina_app.controllers.allocation_controller import AllocationController
from wina_app.controllers.evaluate_controller import EvaluateController
from wina_app.controllers.gate_controller import GateController
from wina_app.controllers.job_notices import JobNotices
from wina_app.controllers.jobs_controller import JobsController
from wina_app.controllers.latency_controller import LatencyController
from wina_app.controllers.model_controller import ModelController
from wina_app.controllers.opening_controller import OpeningController
from wina_app.controllers.rotation_controller import RotationController
from wina_app.controllers.studies_controller import StudiesController
from wina_app.engine_thread import EngineThread
from wina_app.main_window import MainWindow, look_of
from wina_app.models.job_texts import page_of
from wina_app.session import Session
from wina_app.settings import Settings
from wina_app.store_thread import StoreThread
from wina_app.theme import apply_theme, current_mode
from wina_app.translation import tr
from wina_app.views import file_dialogs
from wina_app.views.evaluate_page import EvaluatePage
from wina_app.views.gate_inspector import GateInspector
from wina_app.views.latency_page import LatencyPage
from wina_app.views.log_dock import LogHandler, LogView
from wina_app.views.model_page import ModelPage
from wina_app.views.plot_export import offer_export
from wina_app.views.results_page import ResultsPage
from wina_app.views.rotation_page import RotationPage
from wina_app.views.sparsity_page import SparsityPage
from wina_app.views.studies_page import StudiesPage
from wina_app.workbench import Workbench
from wina_core import paths
from wina_core.engine.pool import open_engines
from wina_core.engine.protocol import CalibrateJob
from wina_core.errors import WinaError
from wina_core.specs import Arm
from wina_core.study_specs import StudySpec

_LOG_BYTES = 2 * 2**20
_SWITCH_SECONDS = 0.0002
"""How long a thread that computes keeps the interpreter from one that waits for it; Python's own choice is 0.005. The
main thread gives the interpreter away in each of many calls of Qt, and while the store's thread computes, showing a
page took up to 490 ms; so it takes 76 ms, and 61 ms where nothing computes."""


class Application(QObject):
    """One window with everything behind it."""

    def __init__(
        self,
        app: QApplication,
        database: str | None = None,
        settings: Settings | None = None,
        engine: EngineThread | None = None,
    ) -> None:
        super().__init__()
        sys.setswitchinterval(_SWITCH_SECONDS)
        settings = settings or Settings()
        apply_theme(app, *look_of(settings.preferences))
        app.styleHints().colorSchemeChanged.connect(self._on_desktop_changed)
        self._log_handler = LogHandler()
        self.log = LogView()
        self._log_handler.bridge.record.connect(self.log.add)
        self._file_handler = _file_handler()
        for handler in (self._log_handler, self._file_handler):
            logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(logging.INFO)
        place = database or settings.preferences.database or None
        self.workbench = Workbench(engine or _engine_thread(settings), StoreThread(place), settings)
        self.window = MainWindow(self.workbench, self.log)
        self._add_jobs()
        self._add_model_page()
        self._add_rotation_page()
        sparsity = self._add_sparsity_page()
        evaluate = self._add_evaluate_page()
        workspace = self.workbench.workspace
        sparsity.primary_triggered.connect(lambda: evaluate.choose_plan(workspace.method, workspace.rotation))
        self._add_latency_page()
        self._results = ResultsPage(self.workbench.store)
        self.window.add_page(self._results)
        self._add_studies_page()
        self._add_file_menu()
        self.notices = JobNotices(self.workbench, self.window)
        self.session = Session(settings, workspace)
        self.window.restore()
        self.workbench.store.failed.connect(self.window.show_failure)
        self.window.closed.connect(self._on_closed)

    def start(self, model: str | None = None, page: str | None = None) -> None:
        """Show the window, then open the database and start the engine; open a model and a page if named."""
        self.window.show()
        self.window.show_page(page or self.window.current_page.key)  # now that it can take the focus
        self.workbench.start()
        if model is not None:
            self.model.open(model)
        elif self.workbench.settings.preferences.reopen:
            self.session.restore(lambda source: self.model.open(source.location, source.dtype, source.quantization))

    def _add_jobs(self) -> None:
        view, dock, log = self.window.jobs, self.window.docks["jobs"], self.log
        self.jobs = JobsController(self.workbench, view)
        log.follow(self.workbench.jobs)

        def name(title: str) -> None:
            dock.setWindowTitle(f"{tr('Jobs')}  ·  {title}" if title else tr("Jobs"))
            dock.toggleViewAction().setText(tr("Jobs"))

        def show_log(job_id: str) -> None:
            log.show_job(job_id)
            self.window.show_dock("log")

        view.title_changed.connect(name)
        view.log_requested.connect(show_log)
        view.page_requested.connect(lambda job_id: self.window.show_page(page_of(self.workbench.jobs[job_id].job)))

    def _add_model_page(self) -> None:
        view = ModelPage()
        self.model = ModelController(self.workbench, view)
        view.open_requested.connect(self.model.open)
        view.cancel_requested.connect(self.model.cancel)
        view.forget_requested.connect(self.model.forget)
        view.cost_requested.connect(self.model.price)
        view.begin.results_requested.connect(self._open_results)
        self.window.add_page(view)

    def _add_rotation_page(self) -> None:
        view = RotationPage()
        self.rotation = RotationController(self.workbench, view)
        view.choice_changed.connect(lambda: self.rotation.choose(view.fields()))
        view.rotate_requested.connect(self.rotation.rotate)
        view.export_requested.connect(self.rotation.rotate)
        view.cancel_requested.connect(self.rotation.cancel)
        self.window.add_page(view)

    def _add_sparsity_page(self) -> SparsityPage:
        view = SparsityPage(self.workbench.workspace, self.workbench.store)
        view.calibration_requested.connect(self._calibrate)
        self.allocation = AllocationController(self.workbench, view, view.controller.editing)
        view.allocation_requested.connect(self.allocation.allocate)
        view.cancel_requested.connect(self.allocation.cancel)
        jobs = self.workbench.jobs

        def follow() -> None:
            view.show_calibrating(any(isinstance(entry.job, CalibrateJob) for entry in jobs.active))

        jobs.added.connect(follow)
        jobs.ended.connect(follow)
        self._add_gate_inspector(view)
        self.window.add_page(view)
        self.sparsity = view.controller
        return view

    def _add_gate_inspector(self, page: SparsityPage) -> None:
        view, heatmap = GateInspector(), page.heatmap
        self.gate = GateController(self.workbench, view)
        view.visible_changed.connect(self.gate.set_visible)
        view.form.prompt_changed.connect(self.gate.set_prompt)
        view.form.ticked.connect(self.gate.tick)
        view.form.inspect_requested.connect(self.gate.inspect)
        view.form.cancel_requested.connect(self.gate.cancel)
        for plot, name in view.plots:
            offer_export(page, plot, name)
        page.inspector = view

        def select() -> None:
            if heatmap.selection.cursor in heatmap.selection.cells:
                self.gate.select(heatmap.selection.cursor)

        def inspect() -> None:
            self.window.docks["inspector"].show()
            self.window.docks["inspector"].raise_()
            self.gate.inspect()

        heatmap.selection_changed.connect(select)
        view.set_command(page.add_command(tr("Inspect the gate of the selected cell"), inspect, "Ctrl+G"))

    def _calibrate(self, job: CalibrateJob) -> None:
        self.workbench.submit(job, f"Calibrate {Arm(rotation=job.rotation, method=job.method).label}")

    def _add_evaluate_page(self) -> EvaluatePage:
        view = EvaluatePage()
        self.evaluate = EvaluateController(self.workbench, view)
        view.changed.connect(self.evaluate.change)
        view.visible_changed.connect(self.evaluate.set_visible)
        view.evaluate_requested.connect(self.evaluate.evaluate)
        view.save_requested.connect(self.evaluate.save_study)
        view.search_requested.connect(self.evaluate.search)
        self.window.add_page(view)
        return view

    def _add_latency_page(self) -> None:
        view = LatencyPage()
        self.latency = LatencyController(self.workbench, view)
        view.changed.connect(self.latency.change)
        view.visible_changed.connect(self.latency.set_visible)
        view.measure_requested.connect(self.latency.measure)
        view.kind_chosen.connect(self.latency.choose_kind)
        view.ordinate_chosen.connect(self.latency.choose_ordinate)
        view.machine_chosen.connect(self.latency.pick_machine)
        view.subject_chosen.connect(self.latency.pick_subject)
        view.load_chosen.connect(self.latency.pick_load)
        view.row_chosen.connect(self.latency.select)
        view.export_requested.connect(self.latency.export)
        self.window.add_page(view)

    def _add_studies_page(self) -> None:
        view = StudiesPage()
        self.studies = StudiesController(self.workbench, view)
        view.visible_changed.connect(self.studies.set_visible)
        view.changed.connect(self.studies.change)
        view.study_chosen.connect(self.studies.select)
        view.file_opened.connect(self.studies.open_file)
        view.forget_requested.connect(self.studies.forget)
        view.role_mapped.connect(self.studies.map_role)
        view.data_chosen.connect(self.studies.choose_data)
        view.estimate_requested.connect(self.studies.estimate)
        view.run_requested.connect(self.studies.run)
        view.pause_requested.connect(self.studies.pause)
        view.resume_requested.connect(self.studies.resume)
        view.cancel_requested.connect(self.studies.cancel)
        view.results_requested.connect(self.studies.show_results)
        view.report_requested.connect(self.studies.report)
        self.studies.results_requested.connect(self._show_study)
        self.window.add_page(view)

    def _show_study(self, study: StudySpec) -> None:
        if study.models:
            self._results.controller.show_study(study)
        self.window.show_page("results" if study.models else "latency")

    def _add_file_menu(self) -> None:
        window, menus = self.window, self.window.menus
        self.opening = OpeningController(
            self.workbench,
            window,
            {
                "model": lambda path: self.model.open(str(path)),
                "study": self.studies.open_file,
                "plan": self.sparsity.open_plan,
            },
        )
        window.dropped.connect(self.opening.open)
        opening = self.opening
        ask = file_dialogs
        menus.add(menus.file, tr("&Open model folder…"), lambda: ask.model_folder(window, opening.open), "Ctrl+O")
        menus.add(menus.file, tr("Open &study…"), lambda: ask.study(window, opening.open), "Ctrl+Shift+O")
        menus.add(menus.file, tr("Open results &database…"), lambda: ask.database(window, opening.open), "Ctrl+Alt+O")
        menus.add(
            menus.file, tr("&New results database…"), lambda: ask.new_database(window, opening.new_database), "Ctrl+N"
        )
        menus.file.addMenu(menus.recent)
        menus.add(menus.file, tr("Open the &demo model"), lambda: self._open_recent_model("demo"), "Ctrl+D")
        menus.file.addSeparator()
        menus.add(menus.file, tr("&Quit"), window.close, "Ctrl+Q")
        menus.recent.aboutToShow.connect(self._fill_recent)
        self._fill_recent()

    def _fill_recent(self) -> None:
        """Models, studies of the user's own, and databases."""
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
            menu.addAction(tr("Nothing was opened yet")).setEnabled(False)

    def _open_results(self) -> None:
        """Those of this database, or of one to be chosen where it has none."""

        def go(stored: bool) -> None:
            if stored:
                self.window.show_page("results")
            else:
                file_dialogs.database(self.window, self.opening.open)

        self.workbench.store.ask(lambda store: bool(store.studies()), go, self.window.show_failure)

    def _open_recent_model(self, location: str) -> None:
        self.window.show_page("model")
        self.model.open(location)

    def _on_desktop_changed(self) -> None:
        if current_mode() == "system":
            apply_theme(QApplication.instance(), "system")

    def _on_closed(self) -> None:
        self.session.save()
        for handler in (self._log_handler, self._file_handler):
            logging.getLogger().removeHandler(handler)
            handler.close()
        QApplication.quit()


def _call(do: Callable[[str], object], location: str, _checked: bool = False) -> None:
    do(location)


def _engine_thread(settings: Settings) -> EngineThread:
    return EngineThread(partial(open_engines, engines=settings.preferences.engines))


def _file_handler() -> logging.Handler:
    try:
        handler: logging.Handler = RotatingFileHandler(
            paths.log_folder() / "window.log", maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True
        )
    except (OSError, WinaError):  # a log that cannot be written must not keep the window from opening
        handler = logging.NullHandler()
    handler.setLevel(logging.INFO)
    handler.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler
