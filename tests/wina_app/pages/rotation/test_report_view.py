"""A measured rotation: maps before and after, and the curve of its refinement while it runs and afterwards."""

import numpy as np
import pytest
from PySide6.QtCore import Qt
from wina_app.pages.rotation.report_panes import RefinementPlot, loss_change
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


def test_a_report_of_an_older_version_says_why_it_has_only_the_map_after(qtbot, view):
    qtbot.mouseClick(view.quantity.buttons["before"], Qt.MouseButton.LeftButton)
    view.show_report(REFINED.model_copy(update={"dense_residuals": (), "refinement": ()}), summary())
    assert view.quantity.value == "after"
    for key in ("before", "change", "refinement"):
        assert not view.quantity.buttons[key].isEnabled()
        assert view.quantity.buttons[key].toolTip()


def test_losses_of_several_sparsities_or_bases_are_compared_only_with_their_own(qtbot):
    plot = RefinementPlot()
    qtbot.addWidget(plot)
    steps = [step(0, 0.1, 0.25), step(1, 0.8, 0.5), step(2, 0.05, 0.25), step(3, 0.4, 0.5)]
    plot.show_steps(steps)
    assert [(list(trace.x), list(trace.y)) for trace in plot.traces] == [([0, 2], [0.1, 0.05]), ([1, 3], [0.8, 0.4])]
    assert loss_change(steps) == pytest.approx((0.45, 0.225))
    other = [each.model_copy(update={"site": "layer 0 heads", "loss": 3 * each.loss}) for each in steps]
    plot.show_steps([*steps, *other, *steps])
    assert [trace.name for trace in plot.traces] == ["stream", "layer 0 heads"]
    for trace in plot.traces:
        assert list(trace.x) == [1, 2, 3]
        assert list(trace.y) == pytest.approx([1.0, 0.5**0.5, 0.5])


@pytest.mark.parametrize(
    ("folded", "shown"),
    [
        ((), "none"),
        (("q", "k", "v", "gate", "up", "down"), "all but o"),
        (("q", "k", "v", "o", "gate", "up", "down"), "all"),
    ],
)
def test_the_figures_name_the_projections_whose_norms_are_folded(folded, shown):
    figures = report_figures(REFINED.model_copy(update={"folded": folded}), summary())
    assert [value for caption, value, _ in figures if caption == "Norms folded in"] == [shown]


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


def test_a_candidate_that_does_harm_on_the_models_own_text_says_so(qtbot, view):
    made = choice(0, 0.4)
    none, better = made.candidates
    harmful = better.model_copy(update={"own_rows": (0.7,) * 8, "own_change": 0.2, "own_change_stderr": 0.03})
    made = made.model_copy(update={"candidates": (none.model_copy(update={"own_rows": (0.5,) * 8}), harmful)})
    view.show_report(REFINED.model_copy(update={"choice": made}), summary())
    qtbot.mouseClick(view.quantity.buttons["candidates"], Qt.MouseButton.LeftButton)
    assert [entry.texts[1:5] for entry in view.candidates.table.shown] == [
        ("chosen", "0.5 ± 0.02", "", ""),
        ("worse on samples", "0.4 ± 0.02", "-0.1 ± 0.01", "+0.2 ± 0.03"),
    ]
    assert "not worse on text sampled from the model" in view.verdict.text()
    by_hand = made.model_copy(update={"chosen": 1, "by_hand": True})
    view.show_report(REFINED.model_copy(update={"choice": by_hand}), summary())
    assert (
        "Worse than no rotation on text sampled from the model: KL 0.5 → 0.7, change +0.2 ± 0.03."
        in view.verdict.text()
    )
    assert view.verdict.property("role") == "failed"


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
