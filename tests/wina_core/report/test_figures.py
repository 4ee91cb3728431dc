"""The plots of reports: measured sparsity on the x axis, published numbers at their nominal one."""

from collections.abc import Callable, Iterator, Sequence

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from tests.wina_core.report.report_study import ENVIRONMENT, fill, named, study, unit
from wina_core.records import LatencyRecord
from wina_core.report import figures as module
from wina_core.report import write_up
from wina_core.report.figures import figures
from wina_core.report.findings import gather
from wina_core.report.layout import published_metric
from wina_core.results.measured import SparsityKind
from wina_core.specs.latency import LatencySpec, Shape
from wina_core.specs.studies import StudySpec
from wina_core.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    with Store("sqlite://") as opened:
        yield opened


class Drawn:
    """Collects the axes that plots are drawn on, by the figure's name."""

    def __init__(self) -> None:
        self.axes: dict[str, list[Axes]] = {}

    def svg(self, name: str, panels: int, draw: Callable[[Sequence[Axes]], None], width: float = 1.0) -> str:
        canvas = Canvas(figsize=(width, width))
        self.axes[name] = [canvas.add_subplot(1, panels, place + 1) for place in range(panels)]
        draw(self.axes[name])
        return ""

    def lines(self, name: str, dashed: bool) -> list[list[float]]:
        """Return the x positions of the lines of the figure's first panel; horizontal ones over all of it left out."""
        found = [line for line in self.axes[name][0].get_lines() if line.is_dashed() == dashed]
        return [[round(float(x), 6) for x in line.get_xdata()] for line in found if list(line.get_xdata()) != [0, 1]]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    found = Drawn()
    monkeypatch.setattr(module, "_svg", found.svg)
    return found


@pytest.mark.parametrize(
    ("by", "label", "teal", "wina"),
    [
        ("counted", "Counted sparsity (%)", [52.0, 67.0], [50.2, 65.2]),
        ("full", "Full sparsity (%)", [42.0, 57.0], [40.2, 55.2]),
        ("target", "Target sparsity (%)", [50.0, 65.0], [50.0, 65.0]),
    ],
)
def test_values_stand_at_measured_and_published_ones_at_nominal_sparsity(
    store: Store, drawn: Drawn, by: SparsityKind, label: str, teal: list[float], wina: list[float]
) -> None:
    fill(store, study())
    frontier = figures(store, gather(store, study(), by))[0]
    assert drawn.axes["frontier"][0].get_xlabel() == label
    assert drawn.lines("frontier", dashed=False) == [teal, wina]
    assert drawn.lines("frontier", dashed=True) == [[50.0, 65.0], [50.0, 65.0]]
    assert f"against {by} sparsity" in frontier.caption
    assert "dashed lines are the published numbers, at the paper's nominal sparsity" in frontier.caption


def test_no_measured_sparsity_lies_outside_the_axes(store: Store, drawn: Drawn) -> None:
    of = study(sparsities=(0.05, 0.9))
    fill(store, of)
    figures(store, gather(store, of, "full"))
    low, high = drawn.axes["frontier"][0].get_xlim()
    assert low < -4.8
    assert high > 82.0


def test_a_run_without_measurements_stands_at_its_target(store: Store, drawn: Drawn) -> None:
    of = study(sparsities=(0.5,))
    fill(store, of)
    for spec, label in named(of):
        for task in of.evaluation.task_names if label.arm == "TEAL" else ():
            value = unit(spec, task, 0.5, published_metric("commonsense", task))
            store.record_unit(value.model_copy(update={"counted_sparsity": None, "full_sparsity": None}))
    figures(store, gather(store, of))
    assert drawn.lines("frontier", dashed=False) == [[50.0], [50.2]]


# ---- latency ---------------------------------------------------------------------------------------------------

SWEEP = StudySpec(
    name="speed",
    latency=LatencySpec(
        shapes=(Shape(outputs=64, inputs=48),), batches=(1,), dtypes=("float32",), backends=("cpu",),
        methods=("wina",), sparsities=(0.5, 0.65),
    ),
)  # fmt: skip


def sweep(store: Store, measured: dict[float, float]) -> None:
    store.save_study(SWEEP, ())
    assert SWEEP.latency is not None
    for point in SWEEP.latency.points():
        store.record_latency(
            LatencyRecord(
                point=point, op="linear", environment=ENVIRONMENT,
                measured_sparsity=measured.get(point.sparsity, point.sparsity), read_bytes=1e6, median_ms=2.0,
                p10_ms=1.9, p90_ms=2.1, dense_ms=3.0, speedup=1.5, bandwidth=10.0,
            )
        )  # fmt: skip


def test_speed_ups_stand_at_the_measured_sparsity(store: Store, drawn: Drawn) -> None:
    sweep(store, {0.5: 0.527, 0.65: 0.652})
    document = write_up(store, SWEEP, "speed.toml")
    assert drawn.axes["speed-up"][0].get_xlabel() == "Measured sparsity (%)"
    assert drawn.lines("speed-up", dashed=False) == [[52.7, 65.2]]
    (table,) = document.latency
    assert table.columns == ("Method", "Batch", "Target 50 %", "Target 65 %")
    assert table.rows == (("wina", "1", "1.50 (2 ms; 52.7 % measured)", "1.50 (2 ms)"),)


def test_speed_ups_may_stand_at_the_target(store: Store, drawn: Drawn) -> None:
    sweep(store, {0.5: 0.527, 0.65: 0.652})
    write_up(store, SWEEP, "speed.toml", by="target")
    assert drawn.axes["speed-up"][0].get_xlabel() == "Target sparsity (%)"
    assert drawn.lines("speed-up", dashed=False) == [[50.0, 65.0]]
