"""Assembly of the Results page."""

from collections.abc import Callable
from functools import cache

from PySide6.QtCore import SignalInstance

from wina_app.pages.results.columns import ColumnChoice
from wina_app.pages.results.controller import ResultsController
from wina_app.pages.results.imports.controller import ImportsController
from wina_app.pages.results.imports.dialog import ImportsDialog
from wina_app.pages.results.page import ResultsPage
from wina_app.pages.results.plots.tabs import ResultsPlots
from wina_app.plots.export_settings import last_choice
from wina_app.services.settings import Settings
from wina_app.services.store_thread import StoreThread
from wina_app.services.workbench import Workbench
from wina_app.shared.sparse_export import SparseExport
from wina_app.widgets.base_page import Page


def wire(
    workbench: Workbench,
    plots: ResultsPlots,
    add_page: Callable[[Page], None],
    preferences_changed: SignalInstance,
    open_plan: Callable[[str], None],
) -> ResultsController:
    """Make the page around its plots, add it to the window, and return its controller; `open_plan` opens that of the
    run with a hash."""
    settings = workbench.settings
    last_choice.keep(settings.plot_file, lambda choice: setattr(settings, "plot_file", choice))
    view = make_page(workbench.store, plots, settings)
    control = view.controller
    control.plots.set_count(settings.preferences.sparsity_count)
    preferences_changed.connect(lambda preferences: control.plots.set_count(preferences.sparsity_count))
    view.plan_requested.connect(open_plan)
    control.plots.plan_requested.connect(open_plan)
    export = SparseExport(workbench, view)
    export.setParent(view)
    view.export.folder_chosen.connect(lambda folder: export.export_run(folder, control.selection.runs[0]))
    _wire_imports(workbench, view)
    add_page(view)
    return control


def make_page(store: StoreThread, plots: ResultsPlots, settings: Settings | None = None) -> ResultsPage:
    """Return the page with its controller; `settings` keeps the choice of columns."""
    columns = ColumnChoice(settings.results_columns if settings else ())
    view = ResultsPage(columns, plots)
    control = ResultsController(store, view, view.plots, columns)
    control.setParent(view)
    view.connect_to(control)
    if settings is not None:
        columns.chosen.connect(lambda: setattr(settings, "results_columns", columns.written))
    return view


def _wire_imports(workbench: Workbench, view: ResultsPage) -> None:
    """Open the dialog on results of other tools when the page asks for it; it is made for the first time."""

    @cache
    def opened() -> tuple[ImportsDialog, ImportsController]:
        dialog = ImportsDialog(view)
        control = ImportsController(workbench.store, dialog)
        control.setParent(dialog)
        dialog.files_chosen.connect(control.choose)
        dialog.import_requested.connect(control.confirm)
        dialog.discard_requested.connect(control.discard)
        dialog.remove_requested.connect(control.remove)
        dialog.export_requested.connect(control.export)
        dialog.saved.connect(view.show_saved)
        workbench.results_changed.connect(lambda: control.read() if dialog.isVisible() else None)
        return dialog, control

    def show() -> None:
        dialog, control = opened()
        source = workbench.workspace.source
        current = () if source is None else (source.location,)
        dialog.offer_models(tuple(dict.fromkeys((*current, *workbench.settings.recent, "demo"))))
        control.read()
        dialog.show()
        dialog.raise_()

    view.imports_requested.connect(show)
