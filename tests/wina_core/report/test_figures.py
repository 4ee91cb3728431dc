"""The figures of reports: measured sparsity on the x axis, published numbers at their nominal one; costs and speed."""

import pytest

from tests.wina_core.report.report_study import ENVIRONMENT, fill, study
from tests.wina_core.samples import timed
from wina_core.analysis.results.measured import SparsityKind
from wina_core.records import MetricRecord, UnitRecord
from wina_core.report.document import write_up
from wina_core.report.drawing import LinePanel
from wina_core.report.figures import ReportFigure, figures, front_panels
from wina_core.report.findings import gather
from wina_core.specs import COST, ORIGINAL, Configuration, EvaluationSpec, MethodSpec, ModelSource, TextSpec
from wina_core.specs.latency import LatencySpec, Shape
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.studies.expand import labelled, specs_of


def line_panel(figure: ReportFigure) -> LinePanel:
    panel = figure.panels[0]
    assert isinstance(panel, LinePanel)
    return panel


def places(panel: LinePanel, line: str = "solid") -> list[list[float]]:
    """Return the x positions of the series with a pattern; the dense model's, which have no markers, left out."""
    series = [one for one in panel.series if one.line == line and one.marker]
    return [[round(x, 6) for x in one.x] for one in series]


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


def test_speed_ups_stand_at_the_measured_sparsity(store: Store) -> None:
    sweep(store, {0.5: 0.527, 0.65: 0.652})
    document = write_up(store, SWEEP, "speed.toml")
    panel = line_panel(document.figures[0])
    assert panel.x_title == "Measured sparsity (%)"
    assert places(panel) == [[52.7, 65.2]]
    (table,) = document.latency
    assert table.columns == ("Method", "Batch", "Target 50 %", "Target 65 %")
    assert table.rows == (("wina", "1", "1.50 (2 ms; 52.7 % measured)", "1.50 (2 ms)"),)


# ---- quality against cost --------------------------------------------------------------------------------------

MODEL = ModelSource(location="demo")
TWO_BITS = StudySpec(
    name="both",
    models=(MODEL, MODEL.model_copy(update={"quantization": "int8"})),
    configurations=(Configuration(), Configuration(method=MethodSpec(name="wina"))),
    sparsities=(0.5,),
    evaluation=EvaluationSpec(fidelity=None, original=TextSpec(source="demo:heldout"), cost_context=2048),
)


def stored(of: StudySpec, numbers: list[tuple[float, float]]) -> tuple[Store, StudySpec]:
    """Return a store with the KL and the megabytes of each run of a study."""
    store, runs = Store("sqlite://"), specs_of(labelled(of))
    store.save_study(of, runs)
    for run, (kl, megabytes) in zip(runs, numbers, strict=True):
        for name, metric, value in ((ORIGINAL, "kl", kl), (COST, "net_bytes", 1e6 * megabytes)):
            record = MetricRecord(task=name, metric=metric, value=value, n=99, higher_is_better=False)
            store.record_unit(UnitRecord(run=run.content_hash(), unit=name, metrics=(record,), seconds=1.0))
    return store, of


def test_the_bits_of_a_model_share_a_panel_with_one_front() -> None:
    store, of = stored(TWO_BITS, [(0.0, 20.0), (0.05, 15.0), (0.001, 12.0), (0.02, 9.0)])
    with store:
        (panel,) = front_panels(store, gather(store, of, "gated"))
    front, *points = panel.series
    assert (panel.title, panel.log_y, panel.x_title) == ("demo", True, "Bytes read per token (MB)")
    assert front.x == (9.0, 12.0, 12.0, 20.0, 20.0)
    assert front.y == (0.02, 0.02, 0.001, 0.001, 1e-6)
    colours = {series.name: series.colour for series in points}
    assert set(colours) == {"dense", "wina", "int8, dense", "int8, wina"}
    assert colours["wina"] == colours["int8, wina"] + "59", "faded"
