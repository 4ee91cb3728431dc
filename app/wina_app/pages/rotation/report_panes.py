"""Panes of a rotation's report: compared candidates, energy spectra, and the curve of a refinement."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHeaderView, QSplitter, QWidget

from wina_app.heatmap.heatmap import Heatmap
from wina_app.plots.colour_bar import ColourBar
from wina_app.plots.colour_maps import ColourScale, category
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Trace
from wina_app.style.number_format import percent
from wina_app.style.theme import GRID
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import ElidedLabel, text_label
from wina_app.widgets.table_model import Column, RowTable, TableEntry
from wina_app.widgets.table_view import RowTableView
from wina_core.records import RefinementStep, RotationCandidate, RotationChoice, SiteSpectrum
from wina_core.records.rotations import SPECTRUM_SITES, SpectrumSite, explain_spectra
from wina_core.specs.plans import Cell

SITE_NAMES: dict[SpectrumSite, str] = {
    "attention": "q, k, v",
    "mlp": "gate, up",
    "o": "o",
    "down": "down",
}
_MAX_CURVES = 8
_LEAST_RANGE = 0.01
"""Smallest range of the colours, so that noise does not fill them."""

_STYLES = (Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine, Qt.PenStyle.DotLine, Qt.PenStyle.DashDotLine)
_MARKED = 40
"""Most points of a line with a marker at each."""


class _CandidateRow(NamedTuple):
    position: int
    candidate: RotationCandidate
    verdict: str


_COLUMNS = (
    Column("rotation", "rotation", lambda row: row.candidate.name, lambda row: row.candidate.name, width=14,
           tip=lambda row: (f"{row.candidate.name}\nMeasured in {row.candidate.seconds:.1f} s, "
                            "without finding its bases")),
    Column("verdict", "verdict", lambda row: row.verdict, lambda row: row.verdict, width=15),
    Column("kl", "KL (nats per token)", lambda row: row.candidate.kl,
           lambda row: f"{row.candidate.kl:.3g} ± {row.candidate.stderr:.2g}", numeric=True, width=16,
           explanation="Of the gated model from the dense one, with its standard error over rows of text"),
    Column("change", "change", lambda row: row.candidate.change,
           lambda row: row.candidate.change_text if row.position else "", numeric=True, width=17,
           explanation="Mean over rows of the difference from no rotation, with the error of the differences"),
    Column("own_change", "change on sampled text", lambda row: row.candidate.own_change,
           lambda row: row.candidate.own_change_text if row.position else "", numeric=True, width=17,
           explanation=("The same difference on text sampled from the dense model. A basis that fits only "
                                    "the given text is often worse there")),
)  # fmt: skip


class CandidateEntry(TableEntry):
    """A compared rotation."""

    columns = _COLUMNS
    row: _CandidateRow


class CandidatesView(QWidget):
    """The compared rotations, the simplest first."""

    def __init__(self) -> None:
        super().__init__()
        self.table = RowTable(_COLUMNS)
        self.view = RowTableView("Compared rotations")
        self.view.show_table(self.table)
        self.view.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header = self.view.horizontalHeader()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)  # long names give way to the numbers
        self.conditions = text_label("", "muted", wrap=True)
        vbox(self, (self.view, 1), self.conditions, spacing=GRID)

    def show_choice(self, choice: RotationChoice | None) -> None:
        """Show the candidates of a choice; None clears the table."""
        self.table.set_entries(() if choice is None else _entries(choice))
        self.conditions.setText("" if choice is None else _conditions(choice))


def _conditions(choice: RotationChoice) -> str:
    sampled = ", and not worse than none on text sampled from the model" if choice.sampled else ""
    return (
        f"At {100 * choice.sparsity:.4g} %, masks shared by the matrices of an input, top k; on {choice.text}, of "
        "which no basis was computed. A rotation is chosen if it is better than none by more than the error of the "
        f"difference{sampled}; of those that differ by less, the simplest one. {choice.seconds:.0f} s in all."
    )


def _entries(choice: RotationChoice) -> Iterable[CandidateEntry]:
    for position, candidate in enumerate(choice.candidates):
        row = _CandidateRow(position, candidate, _verdict(choice, position))
        yield CandidateEntry((str(position), candidate.rotation.content_hash()), row)


def _verdict(choice: RotationChoice, position: int) -> str:
    candidate = choice.candidates[position]
    if position == choice.chosen and not choice.by_hand:
        return "chosen"
    if position == 0:
        return ""
    if candidate.change > candidate.change_stderr:
        return "worse than none"
    if candidate.harms:
        return "worse on samples"
    return "better than none" if candidate.change < -candidate.change_stderr else "no clear difference"


class SpectraView(QWidget):
    """A map of the directions that hold 90 % of each input's energy, and the cumulative spectra of selected cells."""

    def __init__(self) -> None:
        super().__init__()
        self.explanation = text_label("", wrap=True)
        self.heatmap = Heatmap("Directions that hold 90 % of the energy, layers by inputs")
        self.heatmap.tooltip = self._cell_text
        self.heatmap.selection_changed.connect(self._show_curves)
        self.colour_bar = ColourBar()
        self.curves = DataPlot("Energy in the first directions", log_axes="x")
        self.curves.set_axes("directions", "energy (%)")
        self.curves.set_y_limits(0.0, 100.0)
        self.curves.set_log("x", True)
        self.readout = ElidedLabel("muted")
        self.curves.readout_changed.connect(self.readout.setText)
        self._spectra: dict[Cell, SiteSpectrum] = {}
        self._sites: tuple[SpectrumSite, ...] = ()
        maps, plot = QWidget(), QWidget()
        vbox(maps, (self.heatmap, 1), self.colour_bar)
        vbox(plot, (self.curves, 1), self.readout, spacing=0)
        halves = QSplitter()
        halves.addWidget(maps)
        halves.addWidget(plot)
        halves.setChildrenCollapsible(False)
        halves.setStretchFactor(0, 1)
        halves.setStretchFactor(1, 1)
        vbox(self, self.explanation, (halves, 1), spacing=GRID)

    def show_spectra(self, spectra: Sequence[SiteSpectrum], text: str) -> None:
        """Show the spectra of a model on a text; none clears the view."""
        self._sites = tuple(site for site in SPECTRUM_SITES if any(spectrum.site == site for spectrum in spectra))
        self._spectra = {(spectrum.layer, self._sites.index(spectrum.site)): spectrum for spectrum in spectra}
        self.explanation.setText(explain_spectra(spectra, text))
        layers = 1 + max((spectrum.layer for spectrum in spectra), default=-1)
        values = np.full((layers, len(self._sites)), np.nan)
        for cell, spectrum in self._spectra.items():
            values[cell] = spectrum.ninety / spectrum.size
        self.heatmap.set_table([str(layer) for layer in range(layers)], [SITE_NAMES[site] for site in self._sites])
        scale = _scale(values)
        self.heatmap.set_values(values, scale)
        self.colour_bar.set_scale(scale)
        self._show_curves()

    def _show_curves(self) -> None:
        """Draw the selected spectra, or those of the middle layer."""
        middle = max((layer for layer, _ in self._spectra), default=0) // 2
        chosen = sorted(self.heatmap.selection.cells & self._spectra.keys())[:_MAX_CURVES]
        chosen = chosen or [cell for cell in sorted(self._spectra) if cell[0] == middle]
        self.curves.show_traces([self._trace(index, self._spectra[cell]) for index, cell in enumerate(chosen)])

    def _trace(self, index: int, spectrum: SiteSpectrum) -> Trace:
        name = _spectrum_name(spectrum)

        def readout(point: int) -> str:
            count, share = spectrum.directions[point], spectrum.cumulative[point]
            return f"{name}: {count:,} of {spectrum.size:,} directions hold {percent(share)}"

        shares = [100 * share for share in spectrum.cumulative]
        return Trace(name, category(index), spectrum.directions, shares, readout, symbol="o", size=5)

    def _cell_text(self, cell: Cell) -> str:
        if cell not in self._spectra:
            return ""
        spectrum = self._spectra[cell]
        return (
            f"{_spectrum_name(spectrum)}: {spectrum.ninety:,} of {spectrum.size:,} directions hold 90 % of the energy, "
            f"{spectrum.half:,} hold half of it, the first one {percent(spectrum.first)}; {spectrum.beyond_first:,} "
            "hold 90 % of what is outside the first"
        )


def _scale(values: np.ndarray) -> ColourScale:
    """Return a scale over the data's range: spectra of one model differ little within 0 to 100 %."""
    finite = values[~np.isnan(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return ColourScale(
        "Directions for 90 % of the energy", "fraction of all", low, max(high, low + _LEAST_RANGE), percent
    )


def _spectrum_name(spectrum: SiteSpectrum) -> str:
    return f"layer {spectrum.layer}, input of {SITE_NAMES[spectrum.site]}"


class RefinementPlot(DataPlot):
    """A line for each sparsity of a single basis, or for each of several bases its loss relative to its first step."""

    def __init__(self) -> None:
        super().__init__("Refinement: loss over the steps", log_axes="xy")
        self._steps: tuple[RefinementStep, ...] = ()

    def show_steps(self, steps: Sequence[RefinementStep]) -> None:
        """Draw the steps so far, in any order and with repeats; none clears the plot."""
        if steps and tuple(steps) == self._steps:
            return
        self._steps = tuple(steps)
        several = len({step.site for step in steps}) > 1
        self.set_axes("step", "loss / loss at the first step" if several else "loss (nats per token)")
        self.show_traces(_by_site(steps) if several else _by_sparsity(steps))


def loss_change(steps: Sequence[RefinementStep]) -> tuple[float, float] | None:
    """Return the mean loss at the first and last step of each basis and sparsity; None without a refinement."""
    ends = [(losses[0][1], losses[-1][1]) for losses in _losses(steps).values()]
    if not ends:
        return None
    return sum(first for first, _ in ends) / len(ends), sum(last for _, last in ends) / len(ends)


def _losses(steps: Sequence[RefinementStep]) -> dict[tuple[str, float], list[tuple[int, float]]]:
    """Return the (step, loss) of each basis and sparsity in the order of steps."""
    loss_by_step = {(step.site, step.sparsity, step.step): step.loss for step in steps if math.isfinite(step.loss)}
    curves: dict[tuple[str, float], list[tuple[int, float]]] = {}
    for (site, sparsity, step), loss in loss_by_step.items():
        curves.setdefault((site, sparsity), []).append((step, loss))
    return {key: sorted(losses) for key, losses in curves.items()}


def _by_sparsity(steps: Sequence[RefinementStep]) -> list[Trace]:
    return [
        _loss_trace(f"at {percent(sparsity)}", index, losses)
        for index, ((_, sparsity), losses) in enumerate(sorted(_losses(steps).items()))
    ]


def _by_site(steps: Sequence[RefinementStep]) -> list[Trace]:
    """Return for each basis the geometric mean over sparsities of its losses, relative to the first ones."""
    curves_by_site: dict[str, dict[float, list[tuple[int, float]]]] = {}
    for (site, sparsity), losses in _losses(steps).items():
        if losses[0][1] > 0.0:
            curves_by_site.setdefault(site, {})[sparsity] = losses
    traces = []
    for index, (site, curves) in enumerate(curves_by_site.items()):
        latest: dict[float, float] = {}
        points = []
        ordered = sorted((step, sparsity, loss) for sparsity, losses in curves.items() for step, loss in losses)
        for step, sparsity, loss in ordered:
            # A mean of logarithms: the geometric mean. A loss of 0 has none.
            latest[sparsity] = math.log(max(loss, 1e-12) / curves[sparsity][0][1])
            if len(latest) == len(curves):  # a mean over some of them would jump where the next one begins
                points.append((step, math.exp(sum(latest.values()) / len(latest))))
        traces.append(_loss_trace(site, index, points))
    return traces


def _loss_trace(name: str, index: int, points: Sequence[tuple[int, float]]) -> Trace:
    def readout(point: int) -> str:
        step, loss = points[point]
        return f"{name}: step {step}, {loss:.4g}"

    return Trace(
        name,
        category(index),
        [step for step, _ in points],
        [loss for _, loss in points],
        readout,
        symbol="o" if len(points) <= _MARKED else "",
        size=5,
        style=_STYLES[index // 7 % len(_STYLES)],  # the seven colours of categories repeat then
    )
