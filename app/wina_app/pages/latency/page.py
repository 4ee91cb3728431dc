"""View of the Latency page."""

from collections.abc import Mapping

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtWidgets import QSplitter, QStackedWidget, QWidget

from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.latency.form import AGAIN, KINDS, LatencyForm
from wina_app.pages.latency.plan import JobPlan
from wina_app.pages.latency.worth import WorthPanel
from wina_app.plots.export import offer_export
from wina_app.shared.job_strip import JobStrip
from wina_app.shared.latency.chart import Y_AXES, Chart
from wina_app.shared.latency.choices import PointChoices
from wina_app.shared.latency.plots import LatencyPlots
from wina_app.style.number_format import duration, plural
from wina_app.style.theme import GRID
from wina_app.widgets import fields
from wina_app.widgets.base_page import EmptyState, Page
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import explain_disabled, push_button, side_by_side, text_label
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.scroll_page import ScrollPage
from wina_app.widgets.segmented_control import SegmentedControl
from wina_app.widgets.table_model import RowTable
from wina_app.widgets.table_view import RowTableView, ask_table_file
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec, ModelSource, RotationSpec
from wina_core.specs.latency import DecodeSpec, LatencySpec

_CAPTIONS = {"products": ("Shape", "Batch"), "decoding": ("Model", "New tokens")}
_NO_BANDWIDTH = "Only for products: decoding reads more than the gated weights"
_EMPTY = {
    "products": (
        "No product timed yet",
        (
            "Each point is one product y = W x on weights that no cache holds, taken turn by turn with PyTorch's dense "
            "one: its speed-up over that and over the strongest dense product here, its latency with p10 to p90 above "
            "the bound of the memory bandwidth, and every number in a table."
        ),
    ),
    "decoding": (
        "No decoding timed yet",
        (
            "Each point is greedy decoding by the open model under one sparsity, beside the dense model: its speed-up, "
            "its tokens per second with p10 to p90, and every number in a table."
        ),
    ),
}


class LatencyPage(Page):
    """Page to measure products and decoding, and plot them against dense products and the memory bandwidth."""

    kind_chosen = Signal(str)
    y_axis_chosen = Signal(str)
    points_chosen = Signal(str, object)
    """"machine", "subject" or "load", and the chosen one."""
    row_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__("latency", "Latency")
        self.form = LatencyForm()
        self.form.kind_chosen.connect(self.kind_chosen)
        self.count = text_label("", "muted")
        self.trouble = text_label("", "failed")
        self.export = push_button("Export table…", self._export)
        for widget in (self.trouble, self.count, self.export):
            self.header_actions.addWidget(widget)
        self.plots = LatencyPlots()
        offer_export(self, self.plots.left, "speed-up", "Ctrl+P")
        offer_export(self, self.plots.right, "latency", "Ctrl+Shift+P")
        self.table = RowTableView("Timed points")
        self.table.addAction("Export table…", self._export)
        self.worth = WorthPanel()
        self.worth.table.addAction("Export table…", self._export)
        self.tables = SegmentedControl(
            "Table",
            (
                ("worth", "Will it pay here?", "A verdict for each configuration timed on this machine"),
                ("points", "Timed points", "Every timing with its percentiles"),
            ),
        )
        self.tables.chosen.connect(self._show_lower)
        self._panes = QStackedWidget()
        self._results = self._build_results()
        self._panes.addWidget(self._results)
        self._nothing = {kind: EmptyState(*texts, "Measure the chosen points") for kind, texts in _EMPTY.items()}
        for state in self._nothing.values():
            state.triggered.connect(self.primary.click)
            self._panes.addWidget(state)
        self._kind = "products"
        self.progress = JobStrip("Progress of the measurement", "Cancel measuring")
        content = QWidget()
        right = vbox(None, (self._panes, 1), self.progress, spacing=0)  # below: nothing above it moves
        hbox(content, self.form, (right, 1), spacing=0)
        self.set_content(content)
        self.remembered = self.form.products.inputs | self.form.decoding.inputs | {"panes": self._results}
        self.set_primary("Measure")

    def _build_results(self) -> QWidget:
        quantities = [(text, key, explanation) for key, (text, explanation) in Y_AXES.items()]
        self.y_axis = fields.choices(quantities, "Left plot")
        self.y_axis.activated.connect(lambda: self.y_axis_chosen.emit(self.y_axis.currentData()))
        self.subject, self.load, self.machine = ComboBox("Subject"), ComboBox("Load"), ComboBox("Machine")
        choices = FlowLayout()
        choices.addWidget(self.y_axis)
        self._captions = []
        for name, box in (("subject", self.subject), ("load", self.load), ("machine", self.machine)):
            box.activated.connect(lambda _, name=name, box=box: self.points_chosen.emit(name, box.currentData()))
            caption = text_label("", "muted")
            caption.setBuddy(box)
            self._captions.append(caption)
            choices.addWidget(side_by_side(caption, box))
        choices.addWidget(HelpButton("Roofline"))
        upper, lower = QWidget(), QWidget()
        vbox(upper, choices, (self.plots, 1), margins=(2 * GRID, GRID, 2 * GRID, GRID))
        vbox(
            lower,
            hbox(None, self.tables, STRETCH),
            (self.table, 1),
            (self.worth, 1),
            margins=(2 * GRID, GRID, 2 * GRID, GRID),
        )
        whole = QSplitter(Qt.Orientation.Vertical)
        plots = ScrollPage(upper)
        plots.setMinimumHeight(28 * GRID)
        whole.addWidget(plots)
        whole.addWidget(lower)
        whole.setStretchFactor(0, 2)
        whole.setStretchFactor(1, 1)
        whole.setSizes([56 * GRID, 18 * GRID])
        whole.setChildrenCollapsible(False)
        return whole

    def make_spec(
        self, source: ModelSource | None, rotation: RotationSpec, method: MethodSpec
    ) -> LatencySpec | DecodeSpec:
        """Return the chosen sweep; decoding is that of the given model. Raise ChoiceError."""
        if self._kind == "products":
            return self.form.products.make_spec()
        return self.form.decoding.make_spec(source, rotation, method)

    def measures_again(self) -> bool:
        """Return True to measure stored points, too."""
        return self.form.shown.again.isChecked()

    def _row_changed(self, current: QModelIndex) -> None:
        self.row_chosen.emit(current.row())

    @property
    def shows_worth(self) -> bool:
        return self._kind == "decoding" and self.tables.value == "worth"

    def _show_lower(self) -> None:
        """Show the chosen table; products have timed points alone."""
        self.tables.setVisible(self._kind == "decoding")
        self.worth.setVisible(self.shows_worth)
        self.table.setVisible(not self.shows_worth)

    def _export(self) -> None:
        """Write the shown table as it is sorted; the suffix of the chosen file names the format."""
        decoding = "worth" if self.shows_worth else "decoding"
        path = ask_table_file(self, "latency" if self._kind == "products" else decoding)
        if path is None:
            return
        table = (self.worth.table if self.shows_worth else self.table).model()
        try:
            table.write(path)
        except WinaError as error:
            self.show_error(str(error))
        else:
            points = "" if self.shows_worth else f"{plural(table.rowCount(), 'points', 'point')} in {path.name}"
            self.show_saved(path, points)

    def show_kind(self, kind: str, table: RowTable) -> None:
        """Switch to the form and the table of products or of decoding."""
        self._kind = kind
        self.form.show_kind(kind)
        self.table.show_table(table)
        # Qt makes a new selection model for each table.
        self.table.selectionModel().currentRowChanged.connect(self._row_changed)
        subject, load = _CAPTIONS[kind]
        for caption, text in zip(self._captions, (subject, load, "Machine"), strict=True):
            caption.setText(text)
        self.subject.setAccessibleName(subject)
        self.load.setAccessibleName(load)
        products = kind == "products"
        explain_disabled(self.y_axis, enabled=products, reason=_NO_BANDWIDTH)
        if not products:
            self.y_axis.setCurrentIndex(self.y_axis.findData("speedup"))
        self._show_lower()

    def show_context(self, breadcrumb: list[tuple[str, str]]) -> None:
        """Show the model, rotation and method that decode."""
        self.set_breadcrumb(breadcrumb)
        self.form.decoding.model.setText(" / ".join(text for _, text in breadcrumb))

    def show_job(self, entry: JobEntry | None, behind: str) -> None:
        """Show the progress of the sweep, and the title of the job that it waits for; None hides it."""
        self.progress.show_job(entry, behind)

    def view_state(self) -> dict[str, object]:
        """Return the forms, the presets, the timed operation and the left plot."""
        return super().view_state() | {
            "presets": list(self.form.products.ticked_presets()),
            "kind": self._kind,
            "left plot": self.y_axis.currentData(),
            "table": self.tables.value,
        }

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore the view state; unknown presets, operations and plots are ignored."""
        super().restore_view(state)
        presets = state.get("presets")
        if isinstance(presets, list):
            self.form.products.tick_presets(presets)
        kind, y_axis, table = state.get("kind"), state.get("left plot"), state.get("table")
        if isinstance(table, str) and table in self.tables.buttons:
            self.tables.choose(table)
            self._show_lower()
        if isinstance(kind, str) and kind in KINDS:
            self.kind_chosen.emit(kind)
        # Decoding has one left plot, the speed-up.
        if isinstance(y_axis, str) and y_axis in Y_AXES and kind != "decoding":
            self.y_axis.setCurrentIndex(self.y_axis.findData(y_axis))
            self.y_axis_chosen.emit(y_axis)

    def set_primary(self, text: str, *, enabled: bool = True, reason: str = "") -> None:
        """Name the primary action, also on the empty states' buttons."""
        super().set_primary(text, enabled=enabled, reason=reason)
        for state in self._nothing.values():
            explain_disabled(state.button, enabled=enabled, reason=reason)

    def show_problems(self, problems: Mapping[str, str]) -> None:
        """Show the problem of each field; absent fields have none."""
        self.form.show_problems(problems)
        self.trouble.setText(problems.get("points", ""))
        if problems:
            self.count.setText("")
            self.set_primary("Measure", enabled=False, reason=next(iter(problems.values())))

    def show_counting(self) -> None:
        self.count.setText("Counting…")

    def show_count(self, plan: JobPlan, *, active: bool, budget_seconds: float | None) -> None:
        """Show how many points would be measured; `active` while a job measures them, with the budget of a point."""
        stored = f'All points are measured; tick "{AGAIN}" to measure them again'
        self.set_primary(
            f"Measure {plural(plan.missing, 'points', 'point')}",
            enabled=not active and plan.missing > 0,
            reason="This sweep is queued or running already" if active else stored,
        )
        texts = []
        if measured := plan.points - plan.missing:
            texts.append(f"{measured:,} of {plan.points:,} already measured")
        if seconds := plan.missing * (budget_seconds or 0.0):
            texts.append(f"up to {duration(seconds)}")
        self.count.setText("  \N{MIDDLE DOT}  ".join(texts))

    def show_offer(self, offer: PointChoices) -> None:
        """Show the choices of the plots, and the current ones; an empty one is the empty state."""
        self.machine.fill(offer.machines, offer.machine)
        self.subject.fill(offer.subjects, offer.subject)
        self.load.fill(offer.loads, offer.load)
        self._panes.setCurrentWidget(self._results if offer.machines else self._nothing[self._kind])
        explain_disabled(self.export, enabled=bool(offer.machines), reason="There are no points to export")

    def show_chart(self, chart: Chart, fresh: bool) -> None:
        """Draw both plots; a fresh chart resets their zoom."""
        self.plots.show_chart(chart, fresh=fresh)
