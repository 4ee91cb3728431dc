"""Energy spectra of a model's inputs: how many directions hold most of the energy, by layer and input."""

from collections.abc import Sequence

import numpy as np
from PySide6.QtWidgets import QSplitter, QWidget

from wina_app.heatmap.heatmap import Heatmap
from wina_app.plots.colour_bar import ColourBar
from wina_app.plots.colour_maps import ColourScale, category
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Trace
from wina_app.style.number_format import percent
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import ElidedLabel, text_label
from wina_core.records import SiteSpectrum
from wina_core.records.rotations import SPECTRUM_SITES, SpectrumSite, explain_spectra
from wina_core.specs.plans import Cell

SITE_NAMES: dict[SpectrumSite, str] = {
    "attention": tr("q, k, v"),
    "mlp": tr("gate, up"),
    "o": tr("o"),
    "down": tr("down"),
}
_MAX_CURVES = 8
_LEAST_RANGE = 0.01
"""Smallest range of the colours, so that noise does not fill them."""


class SpectraView(QWidget):
    """A map of the directions that hold 90 % of each input's energy, and the cumulative spectra of selected cells."""

    def __init__(self) -> None:
        super().__init__()
        self.explanation = text_label("", wrap=True)
        self.heatmap = Heatmap(tr("Directions that hold 90 % of the energy, layers by inputs"))
        self.heatmap.tooltip = self._cell_text
        self.heatmap.selection_changed.connect(self._show_curves)
        self.colour_bar = ColourBar()
        self.curves = DataPlot(tr("Energy in the first directions"), log_axes="x")
        self.curves.set_axes(tr("directions"), tr("energy (%)"))
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
        name = _name(spectrum)

        def readout(point: int) -> str:
            count, share = spectrum.directions[point], spectrum.cumulative[point]
            return tr(
                "{name}: {count} of {size} directions hold {share}",
                name=name,
                count=f"{count:,}",
                size=f"{spectrum.size:,}",
                share=percent(share),
            )

        shares = [100 * share for share in spectrum.cumulative]
        return Trace(name, category(index), spectrum.directions, shares, readout, symbol="o", size=5)

    def _cell_text(self, cell: Cell) -> str:
        if cell not in self._spectra:
            return ""
        spectrum = self._spectra[cell]
        return tr(
            "{name}: {ninety} of {size} directions hold 90 % of the energy, {half} hold half of it, the first one "
            "{first}; {beyond} hold 90 % of what is outside the first",
            name=_name(spectrum),
            ninety=f"{spectrum.ninety:,}",
            size=f"{spectrum.size:,}",
            half=f"{spectrum.half:,}",
            first=percent(spectrum.first),
            beyond=f"{spectrum.beyond_first:,}",
        )


def _scale(values: np.ndarray) -> ColourScale:
    """Return a scale over the data's range: spectra of one model differ little within 0 to 100 %."""
    finite = values[~np.isnan(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return ColourScale(
        tr("Directions for 90 % of the energy"), tr("fraction of all"), low, max(high, low + _LEAST_RANGE), percent
    )


def _name(spectrum: SiteSpectrum) -> str:
    return tr("layer {layer}, input of {site}", layer=spectrum.layer, site=SITE_NAMES[spectrum.site])
