"""A measured rotation: maps before and after, and the curve of its refinement while it runs and afterwards."""

import numpy as np
import pytest
from PySide6.QtCore import Qt
from wina_app.pages.rotation.report_view import RotationReportView, report_figures

from tests.wina_app.stored_runs import summary
from wina_core.records import (
    LayerRecord,
    RefinementStep,
    RotationCandidate,
    RotationChoice,
    RotationReport,
    SiteSpectrum,
)
from wina_core.specs import NO_ROTATION, RotationSpec


def step(number: int, loss: float, sparsity: float = 0.5, site: str = "stream") -> RefinementStep:
    return RefinementStep(site=site, objective="error", sparsity=sparsity, step=number, steps=40, loss=loss)


def energies(factor: float) -> tuple[LayerRecord, ...]:
    layout = summary().layout
    return tuple(
        LayerRecord(layer=layer, projection=name, metric="off_diagonal_energy", value=factor * (layer + 1) / 10)
        for layer in range(layout.layers)
        for name in layout.projections
    )


REFINED = RotationReport(
    rotation="x",
    logits_deviation=3e-7,
    residuals=energies(0.25),
    dense_residuals=energies(1.0),
    refinement=(step(0, 0.8), step(20, 0.5), step(39, 0.4)),
    shortcut_parameters=0,
    seconds=2.0,
)


@pytest.fixture
def view(qtbot):
    shown = RotationReportView()
    qtbot.addWidget(shown)
    shown.resize(800, 500)
    shown.show_report(REFINED, summary())
    with qtbot.waitExposed(shown):
        shown.show()
    return shown


def values(view: RotationReportView) -> np.ndarray:
    (panel,) = view.heatmap.figure()
    return np.array(panel.values)


def test_maps_before_and_after_share_a_scale_and_the_change_is_their_difference(qtbot, view):
    maps, scales = {}, {}
    for key in ("after", "before", "change"):
        qtbot.mouseClick(view.quantity.buttons[key], Qt.MouseButton.LeftButton)
        maps[key] = values(view)
        (panel,) = view.heatmap.figure()
        scales[key] = panel.low, panel.high
    assert np.allclose(maps["after"], 0.25 * maps["before"])
    assert np.allclose(maps["change"], maps["after"] - maps["before"])
    assert scales["after"] == scales["before"]
    assert scales["change"][0] == -scales["change"][1], "centred at zero"
    assert any("→" in text for text in view.figures.texts())
    assert "0.8 → 0.4" in view.figures.texts()


def candidate(kl: float, change: float, rotation: RotationSpec) -> RotationCandidate:
    return RotationCandidate(
        rotation=rotation, kl=kl, stderr=0.02, change=change, change_stderr=0.01, seconds=3.0, rows=(kl,) * 8
    )


def choice(chosen: int, kl: float, *, by_hand: bool = False) -> RotationChoice:
    rotations = (NO_ROTATION, RotationSpec())
    candidates = tuple(candidate(one, one - 0.5, rotation) for one, rotation in zip((0.5, kl), rotations, strict=True))
    return RotationChoice(
        sparsity=0.5, text="2048 tokens of a.txt", candidates=candidates, chosen=chosen, by_hand=by_hand, seconds=40.0
    )


@pytest.mark.parametrize(
    ("made", "role", "words"),
    [
        (choice(1, 0.4), "section", ("Chosen of 2 candidates: global + heads", "0.5 ± 0.02 → 0.4 ± 0.02", "50 %")),
        (choice(0, 0.6), "section", ("No rotation: none of 1 candidates",)),
        (choice(1, 0.6, by_hand=True), "failed", ("Worse than no rotation", "Choose auto, or none.")),
        (choice(1, 0.4, by_hand=True), "section", ("Better than no rotation",)),
        (choice(1, 0.505, by_hand=True), "section", ("No difference", "beyond the error")),
    ],
)
def test_the_verdict_says_whether_the_rotation_helps_and_stands_out_where_it_harms(view, made, role, words):
    view.show_report(REFINED.model_copy(update={"choice": made}), summary())
    assert all(word in view.verdict.text() for word in words)
    assert view.verdict.property("role") == role
    assert view.verdict.isVisible()
    captions = [caption for caption, *_ in report_figures(REFINED.model_copy(update={"choice": made}), summary())]
    assert "KL at 50 % (nats per token)" in captions
    view.show_report(REFINED, summary())
    assert not view.verdict.isVisible()


def test_every_candidate_is_a_row_with_its_divergence_and_verdict(qtbot, view):
    assert not view.quantity.buttons["candidates"].isEnabled()
    view.show_report(REFINED.model_copy(update={"choice": choice(0, 0.6)}), summary())
    qtbot.mouseClick(view.quantity.buttons["candidates"], Qt.MouseButton.LeftButton)
    assert view.candidates.isVisible()
    rows = [entry.texts for entry in view.candidates.table.shown]
    assert rows == [
        ("none", "chosen", "0.5 ± 0.02", "", ""),
        ("global + heads", "worse than none", "0.6 ± 0.02", "+0.1 ± 0.01", ""),
    ]
    tip = view.candidates.table.index(1, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "global + heads" in tip
    assert "3.0 s" in tip
    table = view.candidates.view
    assert table.width() < 775, "as of a window of 1280 x 800"
    assert table.horizontalScrollBar().maximum() == 0, "all columns are visible"
    assert table.columnWidth(0) > 150
    assert "2048 tokens of a.txt" in view.candidates.conditions.text()


def test_spectra_are_a_map_of_layers_and_inputs_with_the_curves_of_selected_cells(qtbot, view):
    assert not view.quantity.buttons["spectra"].isEnabled()
    spectra = tuple(
        SiteSpectrum(layer=layer, site=site, directions=(1, 4, 40, 100), cumulative=(0.4, 0.6, 0.95, 1.0))
        for layer in range(3)
        for site in ("attention", "mlp", "o", "down")
    )
    measured = {"spectra": spectra, "spectra_text": "8192 tokens of wikitext"}
    view.show_report(REFINED.model_copy(update=measured), summary())
    qtbot.mouseClick(view.quantity.buttons["spectra"], Qt.MouseButton.LeftButton)
    shown = view.spectra
    assert shown.isVisible()
    (panel,) = shown.heatmap.figure()
    assert np.array(panel.values).shape == (3, 4)
    assert np.array(panel.values) == pytest.approx(0.4)
    assert "40 of 100 directions hold 90 %" in shown.heatmap.tooltip((1, 2))
    assert shown.explanation.text() == (
        "On 8192 tokens of wikitext, on average over the layers: one direction alone holds 40 % of the energy of the "
        "stream's inputs, and 40 % of the directions hold 90 % of the rest."
    ), "no verdict: that is the comparison's"
    assert len(shown.curves.figure()[0].series) == 4  # of the middle layer
    few = spectra[0].model_copy(update={"cumulative": (0.1, 0.9, 0.95, 1.0)})
    view.show_report(REFINED.model_copy(update={"spectra": (few, *spectra[1:])}), summary())
    (panel,) = shown.heatmap.figure()
    assert (panel.low, panel.high) == (0.04, 0.4), "the colours are over the data's range"
    view.show_report(REFINED.model_copy(update=measured), summary())
    shown.heatmap.set_selection(shown.heatmap.selection.click((2, 3)))
    (curve,) = shown.curves.figure()[0].series
    assert curve.name == "layer 2, input of down"
