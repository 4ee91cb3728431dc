"""The plots of reports: measured sparsity on the x axis, published numbers at their nominal one."""

import pytest

from tests.wina_core.report.report_study import ENVIRONMENT, fill, named, study, unit
from tests.wina_core.samples import timed
from wina_core.analysis.results.measured import SparsityKind
from wina_core.report import write_up
from wina_core.report.drawing import LinePanel
from wina_core.report.figures import ReportFigure, figures
from wina_core.report.findings import gather
from wina_core.report.layout import published_metric
from wina_core.specs.latency import LatencySpec, Shape
from wina_core.specs.studies import StudySpec
from wina_core.store import Store


def line_panel(figure: ReportFigure) -> LinePanel:
    panel = figure.panels[0]
    assert isinstance(panel, LinePanel)
    return panel


def places(panel: LinePanel, line: str = "solid") -> list[list[float]]:
    """Return the x positions of the series with a pattern; the dense model's, which have no markers, left out."""
    found = [one for one in panel.series if one.line == line and one.marker]
    return [[round(x, 6) for x in one.x] for one in found]


@pytest.mark.parametrize(
    ("by", "label", "teal", "wina"),
    [
        ("gated", "Gated sparsity (%)", [52.0, 67.0], [50.2, 65.2]),
        ("net", "Net sparsity (%)", [42.0, 57.0], [40.2, 55.2]),
        ("target", "Target sparsity (%)", [50.0, 65.0], [50.0, 65.0]),
    ],
)
def test_values_stand_at_measured_and_published_ones_at_nominal_sparsity(
    store: Store, by: SparsityKind, label: str, teal: list[float], wina: list[float]
) -> None:
    fill(store, study())
    frontier = figures(store, gather(store, study(), by))[0]
    panel = line_panel(frontier)
    assert panel.x_title == label
    assert places(panel) == [teal, wina]
    assert places(panel, "dash") == [[50.0, 65.0], [50.0, 65.0]]
    assert f"against {by} sparsity" in frontier.caption
    assert "dashed lines are the published numbers, at the paper's nominal sparsity" in frontier.caption


def test_no_measured_sparsity_lies_outside_the_axes(store: Store) -> None:
    of = study(sparsities=(0.05, 0.9))
    fill(store, of)
    low, high = line_panel(figures(store, gather(store, of, "net"))[0]).x_range
    assert low < -4.8
    assert high > 82.0


def test_a_run_without_measurements_stands_at_its_target(store: Store) -> None:
    of = study(sparsities=(0.5,))
    fill(store, of)
    for spec, label in named(of):
        for task in of.evaluation.task_names if label.configuration == "TEAL" else ():
            value = unit(spec, task, 0.5, published_metric("commonsense", task))
            store.record_unit(value.model_copy(update={"gated_sparsity": None, "net_sparsity": None}))
    assert places(line_panel(figures(store, gather(store, of))[0])) == [[50.0], [50.2]]


# ---- latency ---------------------------------------------------------------------------------------------------

SHAPES = (Shape(outputs=64, inputs=48),)
SWEEP = StudySpec(
    name="speed",
    latency=LatencySpec(
        shapes=SHAPES,
        batches=(1,),
        dtypes=("float32",),
        backends=("native",),
        methods=("wina",),
        sparsities=(0.5, 0.65),
    ),
)


def sweep(store: Store, measured: dict[float, float]) -> None:
    store.save_study(SWEEP, ())
    assert SWEEP.latency is not None
    for point in SWEEP.latency.points():
        record = timed(point, ENVIRONMENT)
        sparsity = measured.get(point.sparsity, point.sparsity)
        store.record_latency(record.model_copy(update={"measured_sparsity": sparsity}))


@pytest.mark.parametrize(
    ("by", "label", "expected"),
    [("gated", "Measured sparsity (%)", [52.7, 65.2]), ("target", "Target sparsity (%)", [50.0, 65.0])],
)
def test_speed_ups_stand_at_the_measured_sparsity_or_the_target(
    store: Store, by: SparsityKind, label: str, expected: list[float]
) -> None:
    sweep(store, {0.5: 0.527, 0.65: 0.652})
    document = write_up(store, SWEEP, "speed.toml", by=by)
    panel = line_panel(document.figures[0])
    assert panel.x_title == label
    assert places(panel) == [expected]
    (table,) = document.latency
    assert table.columns == ("Method", "Batch", "Target 50 %", "Target 65 %")
    assert table.rows == (("wina", "1", "1.50 (2 ms; 52.7 % measured)", "1.50 (2 ms)"),)
