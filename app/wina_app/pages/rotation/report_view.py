"""View of a measured rotation: its figures, maps before and after it, and the curve of its refinement."""

import math

import numpy as np
from PySide6.QtWidgets import QSizePolicy, QStackedWidget, QWidget

from wina_app.heatmap.heatmap import Heatmap
from wina_app.pages.rotation.report_panes import CandidatesView, RefinementPlot, SpectraView, loss_change
from wina_app.plots.colour_bar import ColourBar
from wina_app.plots.colour_maps import DIFFERENCE, ColourScale, three_digits
from wina_app.style.number_format import count, percent, scientific
from wina_app.style.theme import GRID, notifier, scaled
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import ElidedLabel, Readouts, explain_disabled, text_label
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.segmented_control import SegmentedControl
from wina_core.records import LayerRecord, ModelSummary, RotationChoice, RotationReport
from wina_core.specs.plans import Cell

_ENERGY = "off_diagonal_energy"
_OLD = "This rotation was measured by an older version, which kept no values from before. Rotate again."
_NOT_COMPARED = "This rotation was not compared with none. Rotate again."
_NO_SPECTRA = "The spectra of the inputs were not measured. Rotate again."
_PANES = {"refinement": 1, "candidates": 2, "spectra": 3}
"""Places of the panes that are no map of the off-diagonal energy."""
_UNREFINED = "The bases of this rotation are eigenvectors: there is no refinement"


class RotationReportView(QWidget):
    """Read-outs above a map of the off-diagonal energy after, before or its change, or the refinement's curve."""

    def __init__(self) -> None:
        super().__init__()
        self.verdict = text_label("", "section", wrap=True)
        self.figures = Readouts(columns=0)
        self.candidates, self.spectra = CandidatesView(), SpectraView()
        self.heatmap = Heatmap("Off-diagonal energy, layers by projections")
        self.heatmap.tooltip = self._cell_text
        self.colour_bar = ColourBar()
        self.curve = RefinementPlot()
        self.readout = ElidedLabel("muted")
        self.curve.readout_changed.connect(self.readout.setText)
        formula = ("‖offdiag(WᵀW)‖² / ‖WᵀW‖²: 0 where the columns of W are orthogonal, so that the score |x|·c tells "
                     "exactly what dropping an input costs.")  # fmt: skip
        self.quantity = SegmentedControl(
            "Show",
            (
                ("candidates", "Comparison", "The KL divergence of the gated model with and without rotation"),
                ("spectra", "Energy spectra", "How many directions hold the energy of each input"),
                ("after", "After", formula),
                ("before", "Before", "The same before the rotation"),
                ("change", "Change", "After minus before: negative where the rotation helps"),
                ("refinement", "Refinement", "The loss over the steps of the refinement"),
            ),
        )
        self._tips = {key: button.toolTip() for key, button in self.quantity.buttons.items()}
        self.quantity.chosen.connect(lambda _: self._show())
        self._report: RotationReport | None = None
        self._summary: ModelSummary | None = None
        self._after = self._before = np.empty((0, 0))
        maps, curve = QWidget(), QWidget()
        vbox(maps, (self.heatmap, 1), self.colour_bar)
        vbox(curve, (self.curve, 1), self.readout, spacing=0)
        self._stack = QStackedWidget()
        self._stack.addWidget(maps)
        for pane in (curve, self.candidates, self.spectra):
            self._stack.addWidget(pane)
        self._stack.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Ignored)  # it takes what is left
        notifier().changed.connect(self._restyle)
        self._restyle()
        row = hbox(None, self.quantity, HelpButton("Off-diagonal energy"), STRETCH)
        vbox(self, self.verdict, self.figures, row, (self._stack, 1), margins=(GRID * 2, GRID, GRID * 2, GRID))

    def _restyle(self) -> None:
        self._stack.setMinimumHeight(scaled(30 * GRID))

    def show_report(self, report: RotationReport, summary: ModelSummary) -> None:
        """Show a measured rotation of a model."""
        self._report, self._summary = report, summary
        self._show_verdict(report.choice)
        self.figures.show_figures(report_figures(report, summary))
        self.candidates.show_choice(report.choice)
        self.spectra.show_spectra(report.spectra, report.spectra_text)
        self._after = _energies(report.residuals, summary)
        self._before = _energies(report.dense_residuals, summary)
        has_before = not np.isnan(self._before).all()
        for key, possible, reason in (
            ("candidates", report.choice is not None, _NOT_COMPARED),
            ("spectra", bool(report.spectra), _NO_SPECTRA),
            ("before", has_before, _OLD),
            ("change", has_before, _OLD),
            ("refinement", bool(report.refinement), _UNREFINED),
        ):
            explain_disabled(self.quantity.buttons[key], enabled=possible, reason=reason, explanation=self._tips[key])
        if not self.quantity.buttons[self.quantity.value].isEnabled():
            self.quantity.choose("after")
        self.curve.show_steps(report.refinement)
        self.heatmap.set_table([str(layer) for layer in range(summary.layout.layers)], summary.layout.projections)
        self._show()

    def _show_verdict(self, choice: RotationChoice | None) -> None:
        """Show the verdict of the comparison, as a failure where the rotation does harm."""
        self.verdict.setText("" if choice is None else choice.verdict)
        self.verdict.setVisible(choice is not None)
        harms = choice is not None and choice.harms
        self.verdict.setProperty("role", "failed" if harms else "section")
        self.verdict.style().polish(self.verdict)  # else the style sheet does not see the property

    def _show(self) -> None:
        if self._report is None:
            return
        quantity = self.quantity.value
        self._stack.setCurrentIndex(_PANES.get(quantity, 0))
        if quantity in _PANES:
            return
        values = {"before": self._before, "change": self._after - self._before}.get(quantity, self._after)
        scale = _change_scale(values) if quantity == "change" else _scale(self._after, self._before)
        self.heatmap.set_values(values, scale)
        self.colour_bar.set_scale(scale)

    def _cell_text(self, cell: Cell) -> str:
        after, before = (f"{values[cell]:.4g}" for values in (self._after, self._before))
        if math.isnan(self._before[cell]):
            return f"Layer {cell[0]}: off-diagonal energy {after}"
        return f"Layer {cell[0]}: off-diagonal energy {before} → {after}"


def _energies(records: tuple[LayerRecord, ...], summary: ModelSummary) -> np.ndarray:
    """Return the off-diagonal energy, float64 [layers, projections], NaN where unknown."""
    layout = summary.layout
    values = np.full((layout.layers, len(layout.projections)), math.nan)
    for record in records:
        if record.metric == _ENERGY and record.projection in layout.projections:
            values[record.layer, layout.projections.index(record.projection)] = record.value
    return values


def _scale(*tables: np.ndarray) -> ColourScale:
    """Return one scale for the maps before and after, so that their colours compare."""
    high = max((float(np.nanmax(table)) for table in tables if not np.isnan(table).all()), default=0.0)
    top = math.ceil(max(high, 1e-3) * 20) / 20
    return ColourScale("Off-diagonal energy of WᵀW", "fraction", 0.0, top, three_digits)


def _change_scale(values: np.ndarray) -> ColourScale:
    reach = max(float(np.nanmax(np.abs(values))), 1e-3)
    title = "Change of the off-diagonal energy of WᵀW"
    return ColourScale(title, "fraction", -reach, reach, three_digits, DIFFERENCE)


def report_figures(report: RotationReport, summary: ModelSummary) -> list[tuple[str, str, str]]:
    """Return (caption, number with unit, explanation) of each figure of a rotation."""
    after, before = _mean(report.residuals), _mean(report.dense_residuals)
    energy = f"{after:.3f}" if math.isnan(before) else f"{before:.3f} → {after:.3f}"
    losses = loss_change(report.refinement)
    share = report.shortcut_parameters / summary.gated_parameters
    refined = [
        ("Loss (nats per token)", f"{losses[0]:.3g} → {losses[1]:.3g}",
         "Mean over bases and sparsities, at the first and at the last step of the refinement"),
    ] if losses else []  # fmt: skip
    choice = report.choice
    compared = [
        (f"KL at {100 * choice.sparsity:.4g} % (nats per token)", choice.change,
         "Of the gated model from the dense one: without a rotation → with it, each with its standard error"),
    ] if choice is not None else []  # fmt: skip
    return [
        *compared,
        (f"Logits error ({summary.dtype})", scientific(report.logits_deviation),
         "‖rotated − dense‖ / ‖dense‖ on a probe text"),
        ("Mean off-diagonal energy", energy,
         "Before → after, over all projections of all layers; 0 is orthogonal"),
        *refined,
        ("Shortcut weights", f"{count(report.shortcut_parameters)} (+{percent(share)})",
         "Weights of the residual shortcuts, read for every token, against the gated weights"),
        ("Norms folded in", _folded(report, summary),
         "Projections whose inputs carry their column norms, so that shared masks by norms read none"),
        ("Time", f"{report.seconds:.1f} s", "To compute the bases and rotate the weights"),
    ]  # fmt: skip


def _folded(report: RotationReport, summary: ModelSummary) -> str:
    """Return the projections whose norms are folded, in a word where that is all or none."""
    if not report.folded:
        return "none"
    unfolded = [name for name in summary.layout.projections if name not in report.folded]
    return f"all but {', '.join(unfolded)}" if unfolded else "all"


def _mean(records: tuple[LayerRecord, ...]) -> float:
    energies = [record.value for record in records if record.metric == _ENERGY]
    return sum(energies) / len(energies) if energies else math.nan
