"""The plots of the Results page, each under its choices and above its read-out."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QStackedWidget, QWidget

from wina_app.pages.results.plots.frontier import X_AXES, FrontierData, Measure, ParetoData
from wina_app.pages.results.plots.frontier_plot import FrontierPlot, ParetoPlot
from wina_app.pages.results.plots.layer_maps import DepthPlot
from wina_app.pages.results.plots.layers import EACH, MEAN, RunLayers, profile_choices
from wina_app.pages.results.plots.task_bars import OWN_METRIC, BarChart
from wina_app.pages.results.plots.task_bars_plot import BarsPlot
from wina_app.pages.results.study_filter import is_dense
from wina_app.plots.data_plot import DataPlot
from wina_app.shared.latency.chart import Y_AXES, Chart
from wina_app.shared.latency.choices import PointChoices
from wina_app.shared.latency.plots import LatencyPlots
from wina_app.style.number_format import percent
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import ElidedLabel, beside, explain_disabled, text_label
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.segmented_control import SegmentedControl
from wina_core.analysis.results.columns import WARNING
from wina_core.analysis.results.measured import DEFAULT_COUNT, TOLERANCE, SparsityKind
from wina_core.report.drawing import Figure

_APART = "   "
_BETTER = {
    True: tr("↑ better"),
    False: tr("↓ better"),
    None: "",
}


class _Panel(QWidget):
    """Choices in a row, the plot, and a line that reads values."""

    def __init__(self, choices: Sequence[tuple[str, QWidget]], shown: QWidget, term: str = "") -> None:
        super().__init__()
        self.note = text_label("", "muted")
        self.readout = ElidedLabel("muted")
        self.readout.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row: list[QWidget] = []
        for caption, box in choices:
            label = text_label(caption, "muted")
            label.setBuddy(box)
            row += [label, box]
        if term:
            row.append(HelpButton(term))
        vbox(self, beside(*row, self.note), (shown, 1), self.readout, margins=(2 * GRID, GRID, 2 * GRID, GRID))
        if isinstance(shown, DataPlot):
            shown.readout_changed.connect(self.readout.setText)


class FrontierPanel(_Panel):
    """A metric against sparsity, or against a cost."""

    def __init__(self) -> None:
        self.measure, self.model = ComboBox(tr("Metric")), ComboBox(tr("Model"))
        self.x_axis = ComboBox(tr("Sparsity or cost axis"))
        self.x_axis.fill(X_AXES, DEFAULT_COUNT)
        self.plot, self.pareto = FrontierPlot(), ParetoPlot()
        self._stack = QStackedWidget()
        self._stack.addWidget(self.plot)
        self._stack.addWidget(self.pareto)
        choices = ((tr("Metric"), self.measure), (tr("against"), self.x_axis), (tr("of"), self.model))
        super().__init__(choices, self._stack, term="Pareto front")
        for plot in (self.plot, self.pareto):
            plot.readout_changed.connect(self.readout.setText)

    @property
    def shown(self) -> DataPlot:
        """Return the plot of the chosen axis."""
        return self.pareto if self._stack.currentWidget() is self.pareto else self.plot

    def show_pareto(self, data: ParetoData | None, x_axis: str) -> None:
        """Draw all bits over a cost, and note the better direction, or what to measure first."""
        self._stack.setCurrentWidget(self.pareto)
        self.x_axis.fill(X_AXES, x_axis)
        if data is None:
            self.note.setText("")
        elif not data.points:
            self.note.setText(tr("No numbers: {advice}", advice=data.axis.advice))
        else:
            self.note.setText(_BETTER[data.measure.higher_is_better])
        self.pareto.show_points(data)

    def show_frontier(self, data: FrontierData | None, x_axis: SparsityKind) -> None:
        """Draw the lines, and note the better direction, the place of published points, and the number left out."""
        better = data.measure.higher_is_better if data else None
        self._stack.setCurrentWidget(self.plot)
        self.x_axis.fill(X_AXES, x_axis)
        parts = (_BETTER[better], _paper_note(data, x_axis), _left_out(data.left_out if data else 0))
        self.note.setText(_APART.join(filter(None, parts)))
        self.plot.show_frontier(data, x_axis)

    def show_measures(self, measures: Sequence[Measure], measure: Measure | None) -> None:
        """Offer the metrics, and mark the one that is shown."""
        self.measure.fill([(each.title, each) for each in measures], measure)


class TasksPanel(_Panel):
    """All tasks' bars at one sparsity."""

    def __init__(self) -> None:
        self.measure, self.model = ComboBox(tr("Metric of the tasks")), ComboBox(tr("Model of the tasks"))
        self.sparsity = ComboBox(tr("Sparsity that the runs are nearest to"))
        self.plot = BarsPlot()
        choices = ((tr("Metric"), self.measure), (tr("at"), self.sparsity), (tr("of"), self.model))
        super().__init__(choices, self.plot)

    def show_choices(
        self, metrics: Sequence[str], metric: str | None, sparsities: Sequence[float], sparsity: float | None
    ) -> None:
        """Offer metrics and sparsities, and mark those that are shown."""
        named = [(tr("each task's own") if one == OWN_METRIC else one, one) for one in metrics]
        self.measure.fill(named, metric)
        self.sparsity.fill([(percent(one), one) for one in sparsities], sparsity)

    def show_bars(self, chart: BarChart | None) -> None:
        """Draw the bars, and note how many miss the chosen sparsity or are left out."""
        parts = (_flagged(chart), _left_out(chart.left_out)) if chart else ()
        self.note.setText(_APART.join(filter(None, parts)))
        self.plot.show_chart(chart)


class LatencyPanel(_Panel):
    """Stored sweeps: speed-up over dense products, and latency or tokens per second."""

    def __init__(self) -> None:
        self.kind = SegmentedControl(
            tr("Timed"),
            (
                ("products", tr("Products"), tr("Single sparse products on weights that no cache holds")),
                ("decoding", tr("Decoding"), tr("Greedy decoding by the gated model")),
            ),
        )
        self.y_axis = ComboBox(tr("Left plot"))
        self.y_axis.fill([(text, key) for key, (text, _) in Y_AXES.items()], "speedup")
        self.subject, self.load, self.machine = (
            ComboBox(tr("Subject")),
            ComboBox(tr("Load")),
            ComboBox(tr("Machine")),
        )
        self.plots = LatencyPlots()
        choices = (
            (tr("Show"), self.kind), ("", self.y_axis), (tr("of"), self.subject), (tr("at"), self.load),
            (tr("on"), self.machine),
        )  # fmt: skip
        super().__init__(choices, self.plots)
        self.readout.hide()  # the plots have their own

    def show_latency(self, kind: str, offer: PointChoices, chart: Chart, fresh: bool) -> None:
        """Offer what is stored and draw the chosen points."""
        self.kind.choose(kind)
        self.machine.fill(offer.machines, offer.machine)
        self.subject.fill(offer.subjects, offer.subject)
        self.load.fill(offer.loads, offer.load)
        explain_disabled(
            self.y_axis,
            enabled=kind == "products",
            reason=tr(
                "Decoding has more to read than the gated weights: only products are compared with the memory bandwidth"
            ),
        )
        nothing = tr("Nothing is timed yet: measure it on the Latency page.")
        self.note.setText("" if offer.machines else nothing)
        self.plots.show_chart(chart, fresh=fresh)

    def figure(self) -> Figure:
        """Return both plots."""
        return (*self.plots.left.figure(), *self.plots.right.figure())


class AllocationPanel(_Panel):
    """Target and measured sparsity of the selected runs over depth."""

    def __init__(self) -> None:
        self.projection = ComboBox(tr("Projection"))
        self.plot = DepthPlot()
        super().__init__(((tr("Projection"), self.projection),), self.plot)
        self._runs: tuple[RunLayers, ...] = ()
        self.projection.activated.connect(lambda: self._draw(self.projection.currentData()))
        self.show_profiles(())

    def show_profiles(self, runs: Sequence[RunLayers]) -> None:
        """Draw the selected runs."""
        self._runs = tuple(runs)
        chosen = self.projection.currentData()
        choices = profile_choices(runs)
        named = {MEAN: tr("mean of all"), EACH: tr("each")}
        self.projection.fill([(named.get(one, one), one) for one in choices], chosen if chosen in choices else MEAN)
        gated = any(run.projections for run in runs)
        some = (
            tr("Nothing was gated in the selected runs.") if runs else tr("Select rows of the table to see their runs.")
        )
        self.note.setText("" if gated else some)
        self._draw(self.projection.currentData())

    def _draw(self, projection: str) -> None:
        self.plot.show_profiles(self._runs, projection)


def _paper_note(data: FrontierData | None, x_axis: SparsityKind) -> str:
    """Say at which sparsity the paper's points are drawn; empty where there are none."""
    if data is None or all(is_dense(line) for line in data.published):
        return ""
    if x_axis == "net":
        return tr("The paper's numbers are not drawn: it does not print net sparsities.")
    return "" if x_axis == "target" else tr("Hollow: the paper's, at the nominal sparsities that it prints.")


def _flagged(chart: BarChart) -> str:
    """Say how many bars' runs miss the chosen sparsity; empty for none."""
    if not chart.flagged:
        return ""
    return tr(
        "{warning} {count} of {all} were measured more than {tolerance} points from {sparsity}",
        warning=WARNING,
        count=chart.flagged,
        all=len(chart.configurations),
        tolerance=f"{100 * TOLERANCE:g}",
        sparsity=percent(chart.sparsity),
    )


def _left_out(count: int) -> str:
    """Say how many lines or bars are not drawn; empty for none."""
    if not count:
        return ""
    return tr("{count} more are left out: narrow the table with its filter to see them.", count=f"{count:,}")
