"""View of the Results page: every stored number as a table, and plots of its rows and selected runs."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from PySide6.QtCore import QItemSelection, QItemSelectionModel, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import QPushButton, QSplitter

from wina_app.pages.results.arrangement import SortKey
from wina_app.pages.results.columns import ColumnChoice
from wina_app.pages.results.controller import Form
from wina_app.pages.results.dialogs import PaperDialog, ResultsSpec
from wina_app.pages.results.plots.controller import PLOTS, Plot
from wina_app.pages.results.plots.tabs import ResultsPlots
from wina_app.pages.results.run_inspector import ResultsInspector
from wina_app.pages.results.table_panel import FilterLine, ResultsList
from wina_app.shared.sparse_export import SparseExportCommand
from wina_app.style.number_format import plural
from wina_app.style.theme import GRID, scaled
from wina_app.widgets.base_page import Page, with_shortcut
from wina_app.widgets.controls import explain_disabled, push_button, text_label
from wina_app.widgets.fields import FieldProblem
from wina_app.widgets.segmented_control import SegmentedControl
from wina_app.widgets.table_view import ask_table_file
from wina_core.specs import RunSpec

if TYPE_CHECKING:
    from wina_app.pages.results.controller import ResultsController

Half = Literal["table", "both", "plots"]
HALVES: tuple[Half, ...] = get_args(Half)
_ROOM = 100 * GRID
"""Height of a window, 800 pixels at text size 100 %, from which on there is room for both."""
_PLOT = 61 * GRID
"""Height of the plots beside a table: the plot itself then has 360 pixels."""
_TABLE = 28 * GRID
"""Height of the table beside the plots in a low window: four rows with the headings."""
_NO_LIMIT = 16_777_215
"""Qt's QWIDGETSIZE_MAX, which PySide does not have."""
_KEYS = ("Ctrl+Alt+J", "Ctrl+Alt+K", "Ctrl+Alt+L")

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
        self.halves = TableAndPlots(self.list, self.plots)
        self.filter.setMinimumWidth(44 * GRID)
        for widget in (self._count, self.filter, self.compare, self.imports, self.halves.control):
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
        self.halves.offer_on(self)
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
        self.list.everything_requested.connect(lambda: control.show_study(None))
        self.list.paper_requested.connect(self._export_for_paper)
        self.list.form_chosen.connect(control.set_form)
        self.list.group_chosen.connect(control.table.group_by)
        self.list.differing_toggled.connect(control.show_differing)
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
        for widget in (self.filter, self._count, self.compare, self.halves.control):
            widget.setVisible(stored > 0)
        self.set_primary("Export table", enabled=passing > 0, reason="There are no rows to export")
        many, one = ("runs", "run") if form == "runs" else ("rows", "row")
        self._count.setText(plural(stored, many, one) if passing == stored else f"{passing:,} of {stored:,} {many}")

    def show_scope(self, title: str) -> None:
        """Name the study that the page is narrowed to; empty for none."""
        self.list.show_scope(title)

    def show_columns(self, keys: Sequence[str], pinned: Collection[str], common: str) -> None:
        """Show these columns in this order, and the text of the hidden ones that are the same in all rows."""
        self.list.show_columns(keys, pinned, common)
        self.filter.offer_columns([cells.column.key for cells in self.controller.table.metrics.cells])

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
        """Return form, filter, order, groups, widths, plot and selection."""
        table, plots = self.controller.table, self.controller.plots
        return super().view_state() | {
            "form": self.list.form.value,
            "filter": self.filter.text(),
            "sort": [[key.column, key.descending] for key in table.keys],
            "group": table.group,
            "differing": self.list.differing.isChecked(),
            "widths": self.table.widths,
            "half": self.halves.chosen,
            "sizes": self.halves.sizes_of_both,
            "plot": self.plots.plot,
            "plots": plots.view_state(),
            "selection": list(self.controller.selection.runs[:_MAX_REMEMBERED]),
        }

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore a state of `view_state`; the rows follow once they are read."""
        super().restore_view(state)
        view = _ViewState.of(state)
        self.table.widths = view.widths
        self.halves.restore(view.half, view.sizes)
        if view.form is not None:
            self.list.form.choose(view.form)
            self.controller.set_form(view.form)
        # Sort keys and group may be of columns that are read later: the table keeps them until then.
        self.controller.table.sort_by(tuple(SortKey(*key) for key in view.sort))
        self.list.group.setCurrentIndex(max(self.list.group.findData(view.group), 0))
        self.controller.table.group_by(view.group)
        self.list.differing.setChecked(view.differing)
        self.plots.tabs.setCurrentIndex(PLOTS.index(view.plot))
        self.controller.plots.restore_view(view.plots)
        self.controller.selection.select(view.selection)
        self.filter.setText(view.filter)
        self.controller.set_filter(view.filter)

    # ---- what the user does --------------------------------------------------------------------------------------

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

    def _edit(self, key: str) -> None:
        """Edit tags or note of the current row in place, and show their column for it."""
        if self._current_run() is None:
            return
        self.columns.show(key)
        index = self.table.currentIndex()
        section = [column.key for column in self.controller.table.columns].index(key)
        self.table.edit(index.siblingAtColumn(section))

    def _add_commands(self) -> None:
        control, groups = self.controller, self.list
        self.add_command("Filter the table", self.filter.setFocus, "Ctrl+F")
        self.add_command("Choose the columns…", groups.choose_columns, "Ctrl+Shift+K")
        self.add_command("Show only what differs", groups.differing.toggle, "Ctrl+Shift+D")
        self.add_command("Group by…", self._choose_group, "Ctrl+R")
        self.add_command("Close all groups", lambda: control.table.close_groups(True), "Ctrl+[")
        self.add_command("Open all groups", lambda: control.table.close_groups(False), "Ctrl+]")
        self.add_command("Pin or unpin the selected runs", self._pin, "Ctrl+B")
        self.add_command("Edit the tags of the current run", lambda: self._edit("tags"), "Ctrl+T")
        self.add_command("Edit the note of the current run", lambda: self._edit("note"), "Ctrl+Shift+N")
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

    def _choose_group(self) -> None:
        self.list.group.setFocus()
        self.list.group.showPopup()

    def _fill_menu(self) -> None:
        table = self.table
        table.add_action("Pin or unpin", self._pin)
        table.add_action("Edit tags", lambda: self._edit("tags"))
        table.add_action("Edit note", lambda: self._edit("note"))
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


class TableAndPlots(QSplitter):
    """Table above plots. In a low window one of them is shown; the tabs of the plots always are."""

    def __init__(self, table: ResultsList, plots: ResultsPlots) -> None:
        super().__init__(Qt.Orientation.Vertical)
        self._table, self._plots = table, plots
        self.chosen: Half | None = None
        """None until the user chooses or the window is shown."""
        self._last_sizes: list[int] = []
        tips = (
            "The table alone; a click on the tab of a plot shows it",
            "Table and plot, one above the other",
            "The plot alone",
        )
        texts = ("Table", "Both", "Plot")
        choices = zip(HALVES, texts, map(with_shortcut, tips, _KEYS), strict=True)
        self.control = SegmentedControl("Show", tuple(choices))
        self.control.chosen.connect(lambda half: self.choose(cast(Half, half)))
        plots.plot_requested.connect(self._show_plots)
        self.addWidget(table)
        self.addWidget(plots)
        self.setStretchFactor(0, 1)
        self.setStretchFactor(1, 1)
        self.setChildrenCollapsible(False)

    def offer_on(self, page: Page) -> None:
        """Give the page a command for each choice."""
        texts = ("Show the table alone", "Show table and plot", "Show the plot alone")
        for half, text, keys in zip(HALVES, texts, _KEYS, strict=True):
            page.add_command(text, partial(self.choose, half), keys)

    def choose(self, half: Half) -> None:
        """Show one half, or both with the sizes that they had."""
        if self.chosen == "both":
            self._last_sizes = self.sizes()
        self.chosen = half
        self.control.choose(half)
        self._table.setVisible(half != "plots")
        self._plots.fold(half == "table")
        # Tabs alone must not take a plot's share of the splitter.
        self._plots.setMaximumHeight(self._plots.sizeHint().height() if half == "table" else _NO_LIMIT)
        if half == "both":
            self.setSizes(self._last_sizes or self._first_sizes())

    @property
    def sizes_of_both(self) -> list[int]:
        """Last heights of table and plots while both were shown; empty if they never were."""
        return self.sizes() if self.chosen == "both" else self._last_sizes

    def restore(self, half: Half | None, sizes: list[int]) -> None:
        """Restore the choice of an earlier session; ignore invalid sizes."""
        if len(sizes) == 2 and min(sizes) > 0:
            self._last_sizes = sizes
        if half is not None:
            self.choose(half)

    def showEvent(self, event: QShowEvent) -> None:
        """Show what there is room for, unless the user has chosen."""
        super().showEvent(event)
        if self.chosen is None:
            self.choose("both" if self.window().height() >= scaled(_ROOM) else "table")

    def _show_plots(self) -> None:
        """Show the plots, beside the table if there is room."""
        if self.chosen == "table":
            self.choose("both" if self.window().height() >= scaled(_ROOM) else "plots")

    def _first_sizes(self) -> list[int]:
        plots = max(self.height() // 2, min(scaled(_PLOT), self.height() - scaled(_TABLE)))
        return [max(self.height() - plots, 1), plots]


class _ViewState(BaseModel):
    """Stored view; an unreadable field gets its default and leaves the others alone."""

    model_config = ConfigDict(extra="ignore")

    form: Form | None = None
    filter: str = ""
    sort: list[tuple[str, bool]] = []
    group: str = ""
    differing: bool = False
    widths: dict[str, float] = {}
    half: Half | None = None
    sizes: list[int] = []
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
