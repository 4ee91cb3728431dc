"""The plots of the Results page as their controller sees them."""

from collections.abc import Sequence
from typing import Protocol

from wina_app.pages.results.comparison import RunComparison
from wina_app.pages.results.plots.frontier import FrontierData, Measure, ParetoData
from wina_app.pages.results.plots.layers import RunLayers
from wina_app.pages.results.plots.task_bars import BarChart
from wina_app.shared.latency.chart import Chart
from wina_app.shared.latency.choices import PointChoices
from wina_core.analysis.results.measured import SparsityKind


class PlotsView(Protocol):
    """Protocol of the plots."""

    def show_measures(
        self, measures: Sequence[Measure], measure: Measure | None, models: dict[str, str], model: str
    ) -> None:
        """Offer the frontier's metrics and models, and mark those that are shown."""

    def show_frontier(self, data: FrontierData | None, x_axis: SparsityKind) -> None:
        """Draw the frontier; None when no row passes the filter."""

    def show_pareto(self, data: ParetoData | None, x_axis: str) -> None:
        """Draw the Pareto front over a cost; None when no row passes the filter."""

    def show_bar_choices(
        self, metrics: Sequence[str], metric: str | None, sparsities: Sequence[float], sparsity: float | None
    ) -> None:
        """Offer the bars' metrics and sparsities, and mark those that are shown."""

    def show_bars(self, chart: BarChart | None) -> None:
        """Draw the bars; None when there are no rows for any."""

    def show_latency(self, kind: str, offer: PointChoices, chart: Chart, fresh: bool) -> None:
        """Draw timed points; an empty offer when none are stored."""

    def show_layers(self, runs: Sequence[RunLayers]) -> None:
        """Draw maps of the selected runs; none when none is selected."""

    def show_profiles(self, runs: Sequence[RunLayers]) -> None:
        """Draw targets and measured sparsities over depth."""

    def show_comparison(self, comparison: RunComparison | None, text: str) -> None:
        """Show runs side by side, or say why there is nothing to show."""

    def show_selected(self, runs: Sequence[str], timed: frozenset[str]) -> None:
        """Highlight runs, and the timed points that are of their methods and sparsities."""

    def show_paper(self, named: bool, shown: bool) -> None:
        """Enable the published numbers' switch with `named`, and set it to `shown`."""

    def show_error(self, text: str) -> None:
        """Show an error inline."""
