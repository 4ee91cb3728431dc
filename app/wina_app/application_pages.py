"""The pages of an application, each made in steps."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from wina_app.jobs.log import LogView
from wina_app.services.hosted_jobs import ArraySubmission
from wina_app.services.workbench import Workbench
from wina_app.style.theme import apply_stylesheet
from wina_app.widgets import file_dialogs
from wina_app.widgets.base_page import Page
from wina_app.window.files import FileOpener
from wina_app.window.main_window import MainWindow

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


class ApplicationPages(QObject):
    """The pages of a window and their controllers. A controller exists once its page is made."""

    workbench: Workbench
    window: MainWindow
    log: LogView
    opening: FileOpener
    arrays: ArraySubmission
    model: "ModelController"
    rotation: "RotationController"
    sparsity: "SparsityController"
    gate: "GateController"
    evaluate: "EvaluateController"
    latency: "LatencyController"
    playground: "PlaygroundController"
    results: "ResultsController"
    studies: "StudiesController"

    def __init__(self) -> None:
        super().__init__()
        makers: dict[str, Callable[[], Iterator[None]]] = {
            "model": self._make_model,
            "rotation": self._make_rotation,
            "sparsity": self._make_sparsity,
            "evaluate": self._make_evaluate,
            "latency": self._make_latency,
            "playground": self._make_playground,
            "results": self._make_results,
            "studies": self._make_studies,
        }
        self.page_steps = {key: self._make(key, maker) for key, maker in makers.items()}
        """By page the steps that make it; the event loop runs between two of them."""

    def add_page(self, key: str) -> None:
        """Make a page, unless it is made already; some of its steps may have been taken."""
        for _ in self.page_steps.get(key, ()):
            pass

    def _make(self, key: str, maker: Callable[[], Iterator[None]]) -> Iterator[None]:
        """Make a page in steps."""
        for _ in maker():
            yield
        self.show_loading(key)
        yield
        apply_stylesheet(self.window.pages[key])
        yield

    # Pages are imported once the window is painted: they load pyqtgraph and numpy, which take longer than the frame.

    def _make_model(self) -> Iterator[None]:
        from wina_app.pages.model import wire

        yield
        self.model = wire(self.workbench, self.window.add_page, self.open_results)

    def _make_rotation(self) -> Iterator[None]:
        from wina_app.plots import data_plot  # noqa: F401

        yield
        from wina_app.pages.rotation import wire

        yield
        self.rotation = wire(self.workbench, self.window.add_page)

    def _make_sparsity(self) -> Iterator[None]:
        from wina_app.pages.sparsity import wire

        yield
        from wina_app.pages.gate_inspector import wire as wire_inspector
        from wina_app.pages.gate_inspector.panel import GateInspector

        yield
        inspector = GateInspector()
        yield

        def add_inspector(page: Page, heatmap: "EditableHeatmap") -> None:
            self.gate = wire_inspector(self.workbench, inspector, page, heatmap, self._raise_inspector)

        self.sparsity = wire(self.workbench, self.window.add_page, add_inspector, self.evaluate_plan)

    def _raise_inspector(self) -> None:
        self.window.dock_area.show("inspector")

    def _make_evaluate(self) -> Iterator[None]:
        from wina_app.pages.evaluate import wire

        yield
        self.evaluate = wire(self.workbench, self.window.add_page, self.show_run)

    def _make_latency(self) -> Iterator[None]:
        from wina_app.pages.latency import wire

        yield
        self.latency = wire(self.workbench, self.window.add_page)

    def _make_playground(self) -> Iterator[None]:
        from wina_app.pages.playground import wire

        yield
        self.playground = wire(self.workbench, self.window.add_page, self.show_log, self.window.status.show_server)

    def _make_results(self) -> Iterator[None]:
        from wina_app.pages.results import controller  # noqa: F401

        yield
        from wina_app.pages.results import page, wire  # noqa: F401
        from wina_app.pages.results.plots.tabs import ResultsPlots

        yield
        plots = ResultsPlots()
        yield
        self.results = wire(
            self.workbench, plots, self.window.add_page, self.window.preferences_changed, self.open_plan
        )

    def _make_studies(self) -> Iterator[None]:
        from wina_app.pages.studies import wire

        yield
        self.studies = wire(self.workbench, self.window.add_page, self.show_study, self.show_run, self.arrays)

    def show_loading(self, *keys: str) -> None:
        """Show on pages that need a model that one is being loaded."""
        workspace = self.workbench.workspace
        for key in keys or self.window.pages:
            self.window.pages[key].show_awaited_model(workspace.loading, workspace.breadcrumb())

    def show_log(self, job_id: str) -> None:
        self.log.show_job(job_id)
        self.window.show_dock("log")

    def evaluate_plan(self) -> None:
        self.add_page("evaluate")
        self.evaluate.choose_plan()

    def show_study(self, study: "StudySpec") -> None:
        """Show a study's runs on the Results page, or its sweep on the Latency page."""
        page = "results" if study.models else "latency"
        self.add_page(page)
        if study.models:
            self.results.show_study(study)
        self.window.show_page(page)

    def show_run(self, run: str) -> None:
        """Select the run with this hash on the Results page."""
        self.add_page("results")
        self.window.show_page("results")
        self.results.selection.select((run,))

    def open_plan(self, run: str) -> None:
        """Open the plan and the bits of the run with this hash on the Sparsity page."""
        self.add_page("sparsity")
        self.window.show_page("sparsity")
        self.sparsity.open_run(run)

    def open_results(self) -> None:
        """Show the results of this database, or ask for another one if it is empty."""

        def go(stored: bool) -> None:
            if stored:
                self.window.show_page("results")
            else:
                file_dialogs.choose_database(self.window, self.opening.open)

        self.workbench.store.ask(lambda store: bool(store.studies()), go, self.window.show_failure)
