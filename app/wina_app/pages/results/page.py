"""View of the Results page: every stored number as a table, and plots of its rows and selected runs."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError
from PySide6.QtCore import QItemSelection, QItemSelectionModel, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import QPushButton, QSplitter

from wina_app.pages.results.columns import ColumnChoice
from wina_app.pages.results.controller import Form
from wina_app.pages.results.dialogs import PaperDialog, ResultsSpec
from wina_app.pages.results.plots.controller import PLOTS, Plot
from wina_app.pages.results.plots.tabs import ResultsPlots
from wina_app.pages.results.run_inspector import ResultsInspector
from wina_app.pages.results.table import SortKey
from wina_app.pages.results.table_panel import FilterLine, ResultsList
from wina_app.shared.sparse_export import SparseExportCommand
from wina_app.style.number_format import plural
from wina_app.style.theme import GRID
from wina_app.widgets.base_page import Page
from wina_app.widgets.controls import explain_disabled, push_button, text_label
from wina_app.widgets.fields import FieldProblem
from wina_app.widgets.table_view import ask_table_file
from wina_core.specs import RunSpec

if TYPE_CHECKING:
    from wina_app.pages.results.controller import ResultsController

_PLOT = 61 * GRID
"""Height of the plots beside a table: the plot itself then has 360 pixels."""
_TABLE = 28 * GRID
"""Height of the table beside the plots in a low window: four rows with the headings."""

_MAX_SELECTED = 20_000
"""Most selected rows whose runs are compared: all rows of a large table are no choice of runs."""
_MAX_REMEMBERED = 100
"""Most selected runs that the next start selects again."""
_REST_MS = 150
"""Debounce of the filter."""
_NO_RUN = "No run is selected; select one of its rows in the table first."


class ResultsPage(Page):
    """Page that shows its controller's reading of the store, and emits the user's choices to it."""

    inspector: ResultsInspector
    plan_requested = Signal(str)
    """Hash of a run whose plan is to be opened."""

    imports_requested = Signal()

    def __init__(self, columns: ColumnChoice, plots: ResultsPlots) -> None:
        super().__init__("results", "Results")
        self.columns = columns
        self.filter = FilterLine()
        self.problem = FieldProblem(self.filter, lambda: self)
        self.start = self.filter  # the table would take a row as current
        self._count = text_label("", "muted")
        self.export = SparseExportCommand(self, QPushButton())
        self.list = ResultsList(self.columns, self.export.button)
        self.table = self.list.table
        self.inspector = ResultsInspector()
        self.plots = plots
        self.compare = push_button("Compare", lambda: self.plots.show_plot("compare"), name="Compare the selected runs")
        self.imports = push_button(
            "Imports…",
            self.imports_requested.emit,
            name="Results of other tools…",
            tip="Import what llama.cpp, lm-eval or another tool measured, and list what is imported",
        )
        self._rest = QTimer(self, singleShot=True, interval=_REST_MS)
        self.halves = QSplitter(Qt.Orientation.Vertical)
        self.halves.addWidget(self.list)
        self.halves.addWidget(self.plots)
        self.halves.setSizes([_TABLE, _PLOT])
        self.remembered["halves"] = self.halves
        self.filter.setMinimumWidth(44 * GRID)
        for widget in (self._count, self.filter, self.compare, self.imports):
            self.header_actions.addWidget(widget)
        self.set_content(self.halves)

    def connect_to(self, controller: "ResultsController") -> None:
        """Show what the controller reads, and connect all controls to it."""
        self.controller = controller
        self.undo_stack = controller.annotations.undo_stack
        # The table has no selection model before it shows its model, and the first rows come with `start`.
        self.table.show_table(self.controller.table)
        self.controller.start()
        self._follow_selection()
        self._connect()
        self._add_commands()
        self.plots.offer_on(self)
        self._fill_menu()

    def _connect(self) -> None:
        control = self.controller
        self.filter.textChanged.connect(self._rest.start)
        self._rest.timeout.connect(lambda: control.set_filter(self.filter.text()))
        self.table.selectionModel().selectionChanged.connect(self._selection_changed)
        control.selection.changed.connect(self._follow_selection)
        control.table.modelReset.connect(self._follow_selection)
        control.listed.connect(self._select_restored)
        self.plots.connect_to(control.plots)
        self.plots.plot_requested.connect(self._show_plots)
        self.list.everything_requested.connect(lambda: control.show_study(None))
        self.list.paper_requested.connect(self._export_for_paper)
        self.list.form_chosen.connect(control.set_form)
        self.table.copy_requested.connect(lambda suffix: control.copy(self.table.selected_rows(), suffix))
        self.table.delete_requested.connect(self._delete)
        self.inspector.tags_written.connect(control.annotations.set_tags)
        self.inspector.note_written.connect(control.annotations.set_note)
        self.inspector.pin_toggled.connect(control.annotations.toggle_pin)
        control.table.content_changed.connect(self._inspect)
        control.selection.changed.connect(self._inspect)
        self.primary_triggered.connect(self._export)
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("evaluate"))

    # ---- what the controller asks for ----------------------------------------------------------------------------

    def show_count(self, form: Form, passing: int, stored: int) -> None:
        """Show the number of runs or metrics; none stored is the empty state."""
        if stored == 0 and not self.is_empty:
            self.show_empty(
                "No results yet",
                (
                    "Every run is a row here as soon as it has a number: filter and sort them, plot a "
                    "metric against sparsity, look at what each layer dropped, and export table and plots."
                ),
                "Evaluate a plan",
            )
        elif stored and self.is_empty:
            self.show_content()
        for widget in (self.filter, self._count, self.compare):
            widget.setVisible(stored > 0)
        self.set_primary("Export table", enabled=passing > 0, reason="There are no rows to export")
        many, one = ("runs", "run") if form == "runs" else ("rows", "row")
        self._count.setText(plural(stored, many, one) if passing == stored else f"{passing:,} of {stored:,} {many}")

    def show_scope(self, title: str) -> None:
        """Name the study that the page is narrowed to; empty for none."""
        self.list.show_scope(title)

    def show_columns(self, keys: Sequence[str]) -> None:
        """Show these columns in this order."""
        self.table.show_columns(keys)

    def show_filter_error(self, text: str) -> None:
        """Show an error of the filter; empty for none."""
        self.problem.show_text(text)
        self.filter.setProperty("state", "invalid" if text else "")
        self.filter.style().polish(self.filter)  # else the style sheet does not see the property

    def copy_text(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.controller.plots.set_visible(True)  # beneath the table too: a click on a tab shows a drawn plot

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.controller.plots.set_visible(False)

    def show_spec(self, spec: RunSpec) -> None:
        ResultsSpec(spec, self).open()

    # ---- what the next start restores ----------------------------------------------------------------------------

    def view_state(self) -> dict[str, object]:
        """Return form, filter, order, widths, plot and selection."""
        table, plots = self.controller.table, self.controller.plots
        return super().view_state() | {
            "form": self.list.form.value,
            "filter": self.filter.text(),
            "sort": [[key.column, key.descending] for key in table.keys],
            "widths": self.table.widths,
            "plot": self.plots.plot,
            "plots": plots.view_state(),
            "selection": list(self.controller.selection.runs[:_MAX_REMEMBERED]),
        }

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore a state of `view_state`; the rows follow once they are read."""
        super().restore_view(state)
        view = _ViewState.of(state)
        self.table.widths = view.widths
        if view.form is not None:
            self.list.form.choose(view.form)
            self.controller.set_form(view.form)
        # Sort keys may be of columns that are read later: the table keeps them until then.
        self.controller.table.sort_by(tuple(SortKey(*key) for key in view.sort))
        self.plots.tabs.setCurrentIndex(PLOTS.index(view.plot))
        self.controller.plots.restore_view(view.plots)
        self.controller.selection.select(view.selection)
        self.filter.setText(view.filter)
        self.controller.set_filter(view.filter)

    # ---- what the user does --------------------------------------------------------------------------------------

    def _show_plots(self) -> None:
        """Show the plots if the user has dragged the table over them."""
        if not self.halves.sizes()[1]:
            self.halves.setSizes([_TABLE, _PLOT])

    def _selected_rows(self) -> list[int]:
        # Counted by ranges: all rows of a large table are one range, and are not listed.
        ranges = self.table.selectionModel().selection()
        count = sum(ranges.at(number).height() for number in range(ranges.size()))
        return self.table.selected_rows() if count <= _MAX_SELECTED else []

    def _selection_changed(self) -> None:
        index = self.table.currentIndex()
        self.controller.select_rows(self._selected_rows())
        self.controller.select_measure(index.row(), index.column())

    def _follow_selection(self) -> None:
        """Select the rows of the runs that a plot selected."""
        runs = self.controller.selection.runs
        explain_disabled(
            self.compare,
            enabled=len(runs) > 1,
            reason="Select rows of two or more runs, the others with Ctrl held",
            explanation="The difference on every task that they share, with its interval and p",
        )
        self.export.show_reason(self.controller.export_problem())
        # The table itself may have selected them: selecting all rows of its runs would undo a choice of single rows.
        if set(runs) == set(self.controller.runs_of(self._selected_rows())):
            return
        rows, table = QItemSelection(), self.controller.table
        for row in table.lines_of_runs(runs):
            rows.select(table.index(row, 0), table.index(row, table.columnCount() - 1))
        flags = QItemSelectionModel.SelectionFlag.ClearAndSelect
        self.table.selectionModel().select(rows, flags)
        if not rows.isEmpty():
            self.table.scrollTo(rows.indexes()[0])

    def _select_restored(self) -> None:
        """Select the rows of the runs that the last session had selected, once they are listed."""
        if self.controller.selection.runs and not self.table.selectionModel().hasSelection():
            self._follow_selection()

    def _inspect(self) -> None:
        runs = self.controller.selection.runs
        self.inspector.show_runs(runs, self.controller.annotations.facts(runs[0]) if runs else None)

    def _delete(self) -> None:
        if runs := self._runs_to_change():
            self.controller.annotations.delete(runs)

    def _pin(self) -> None:
        if runs := self._runs_to_change():
            self.controller.annotations.toggle_pin(runs)

    def _runs_to_change(self) -> list[str]:
        """Return the runs of the selected rows; show an error where there is none."""
        runs = self.controller.runs_of(self.table.selected_rows())
        if not runs:
            self.show_error(_NO_RUN)
        return runs

    def _current_run(self) -> str | None:
        """Return the current row's run; show an error where there is none."""
        run = self.controller.table.run_at(self.table.currentIndex().row())
        if run is None:
            self.show_error(_NO_RUN)
        return run

    def _open_plan(self) -> None:
        if (run := self._current_run()) is not None:
            self.plan_requested.emit(run)

    def _add_commands(self) -> None:
        self.add_command("Filter the table", self.filter.setFocus, "Ctrl+F")
        self.add_command("Choose the columns…", self.list.choose_columns, "Ctrl+Shift+K")
        self.add_command("Pin or unpin the selected runs", self._pin, "Ctrl+B")
        self.add_command("Delete the selected runs", self._delete, "Ctrl+Del")
        self.add_command(
            "Open the plan of the current run", self._open_plan, "Ctrl+Alt+P", "Targets and bits, on Sparsity"
        )
        self.add_command("Table for a paper…", self._export_for_paper, "Ctrl+Shift+L")
        self.add_command("Results of other tools…", self.imports_requested.emit, "Ctrl+Shift+I")
        for text, suffix, keys in (
            ("Copy rows as Markdown", ".md", "Ctrl+Shift+M"),
            ("Copy rows as LaTeX", ".tex", "Ctrl+Shift+T"),
        ):
            self.add_command(text, partial(self._copy, suffix), keys)

    def _copy(self, suffix: str) -> None:
        if rows := self.table.selected_rows():
            self.controller.copy(rows, suffix)
        else:
            self.show_error("No row is selected; select those to copy first.")

    def _fill_menu(self) -> None:
        table = self.table
        table.add_action("Pin or unpin", self._pin)
        table.add_action("Delete runs", self._delete)
        table.add_separator()
        table.add_action("Export table…", self._export)
        table.add_action("Table for a paper…", self._export_for_paper)
        table.add_action("Compare the selected runs", lambda: self.plots.show_plot("compare"))
        table.add_action("Open its plan", self._open_plan)
        table.addAction(self.export.action)
        table.add_action("How was this computed", lambda: self.controller.explain(table.currentIndex().row()))

    def _export_for_paper(self) -> None:
        if self.controller.table.rowCount():
            dialog = PaperDialog(self.controller.snapshot(), self)
            dialog.save_requested.connect(self.controller.export)
            dialog.show()
        else:
            self.show_error("There are no rows to export")

    def _export(self) -> None:
        path = ask_table_file(self, "results")
        if path is not None:
            self.controller.export(path)


class _ViewState(BaseModel):
    """Stored view; an unreadable field gets its default and leaves the others alone."""

    model_config = ConfigDict(extra="ignore")

    form: Form | None = None
    filter: str = ""
    sort: list[tuple[str, bool]] = []
    widths: dict[str, float] = {}
    plot: Plot = "frontier"
    plots: dict[str, object] = {}
    selection: list[str] = []

    @classmethod
    def of(cls, state: Mapping[str, object]) -> "_ViewState":
        """Read a state field by field."""
        read: dict[str, object] = {}
        for name in cls.model_fields.keys() & state.keys():
            with suppress(ValidationError):
                read[name] = getattr(cls.model_validate({name: state[name]}), name)
        return cls.model_validate(read)
