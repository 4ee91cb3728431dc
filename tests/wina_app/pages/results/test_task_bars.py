"""The bars of tasks: which numbers they show, where they stand, and what is read off them."""

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from wina_app.pages.results.plots.task_bars import (
    OWN_METRIC,
    BarsPlot,
    bar_chart,
    bar_readout,
)
from wina_app.style.theme import apply_theme, method_colour

from tests.wina_app.stored_runs import record_demo_study
from wina_core.store import Store
from wina_core.store.metric_frames import metrics_frame


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Of the demo study, and of two tasks more whose values are those of its own."""
    with Store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'results.sqlite'}") as store:
        record_demo_study(store)
        stored = store.metric_rows()
    accuracies = [row for row in stored if row.metric == "acc"]
    more = [
        row._replace(unit=task, task=task, metric=metric)
        for row in accuracies
        for task, metrics in (("piqa", ("acc", "acc_norm")), ("boolq", ("acc",)))
        for metric in metrics
    ]
    return [*stored, *more]


@pytest.fixture(scope="module")
def entries(rows):
    return metrics_frame(rows)


@pytest.fixture(scope="module")
def model(rows):
    return rows[0].model_hash


def chart_of(entries, model, metric=OWN_METRIC, sparsity=0.5):
    return bar_chart(entries, model, metric, sparsity, None)


def test_each_task_has_the_metric_that_tables_prefer(entries, model):
    chart = chart_of(entries, model)
    assert chart.tasks == ("boolq", "demo_choice", "piqa")
    assert [bar.metric for bar in chart.configurations[0].bars] == ["acc", "acc", "acc_norm"]
    assert chart.metric == "own metric (fraction)"


def test_each_configuration_has_its_run_of_the_chosen_sparsity(entries, model, rows):
    chart = chart_of(entries, model, "acc", 0.65)
    assert [configuration.name for configuration in chart.configurations] == ["teal", "wina", "wina, global + heads"]
    assert [configuration.label for configuration in chart.configurations] == [
        f"{configuration.name}, 64.8 % (target 65 %)" for configuration in chart.configurations
    ]
    runs = {row.run for row in rows if row.target_sparsity == 0.65}
    assert {configuration.run for configuration in chart.configurations} == runs
    dense = next(row for row in rows if row.method == "dense" and row.metric == "acc")
    assert [bar.value for bar in chart.dense] == [dense.value] * 3


def reached(rows, measured):
    """Accuracies of plain WINA by target, with other measured sparsities: {target: measured}."""
    accuracies = [row for row in rows if (row.method, row.rotation, row.unit) == ("wina", "none", "demo_choice")]
    return [
        row._replace(gated_sparsity=measured[row.target_sparsity], net_sparsity=measured[row.target_sparsity])
        for row in accuracies
        if row.target_sparsity in measured
    ]


def test_of_each_configuration_the_run_that_was_measured_nearest_is_shown(model, rows):
    measured = reached(rows, {0.25: 0.3, 0.4: 0.499, 0.5: 0.53, 0.65: 0.68})
    (configuration,) = chart_of(metrics_frame(measured), model, "acc", 0.5).configurations
    assert configuration.label == "wina, 49.9 % (target 40 %)"


def test_a_configuration_that_is_not_at_the_chosen_sparsity_is_flagged_in_its_name_and_its_readout(model, rows):
    measured = reached(rows, {0.25: 0.24, 0.4: 0.412, 0.5: 0.52, 0.65: 0.677})
    chart = chart_of(metrics_frame(measured), model, "acc", 0.65)
    (configuration,) = chart.configurations
    assert configuration.label == "wina ⚠ 67.7 % (target 65 %)"
    text = bar_readout(configuration.name, chart, configuration.bars[0])
    assert "gated 67.7 %  ·  target 65.0 %  ·  ⚠ 2.7 points sparser than its target" in text
    assert text.count("⚠") == 1, "said once"


def test_of_two_runs_of_one_configuration_that_are_equally_near_the_latest_is_shown(model, rows):
    (one,) = reached(rows, {0.5: 0.5})
    measured = [one._replace(run="first", finished=2.0), one._replace(run="second", finished=1.0)]
    assert [configuration.run for configuration in chart_of(metrics_frame(measured), model, "acc").configurations] == [
        "first"
    ]


@pytest.fixture
def plot(qtbot, qapp, entries, model):
    apply_theme(qapp, "light")
    plot = BarsPlot()
    qtbot.addWidget(plot)
    plot.resize(700, 300)
    with qtbot.waitExposed(plot):
        plot.show()
    plot.show_chart(chart_of(entries, model))
    qapp.processEvents()
    return plot


def test_configurations_stand_beside_each_other_in_their_methods_colours(plot):
    teal, wina, rotated, dense, marks = plot.traces
    assert list(np.round([*teal.x[:1], *wina.x[:1], *rotated.x[:1]], 3)) == [-0.2, 0.0, 0.2]
    assert teal.colour.name() == method_colour("teal").name()
    assert wina.colour != rotated.colour, "one method, two configurations"
    assert np.isfinite(teal.errors).all()
    assert dense.style == Qt.PenStyle.DashLine
    assert not marks.named
    assert plot.getPlotItem().vb.viewRange()[1][0] == pytest.approx(0.0), "bars begin at 0"


def test_a_bar_is_read_and_chosen_anywhere_between_0_and_its_end(plot):
    texts = []
    plot.readout_changed.connect(texts.append)
    wina = plot.traces[1]
    inside = plot.getPlotItem().vb.mapViewToScene(QPointF(wina.x[1] + 0.08, wina.y[1] / 2))
    plot.scene().sigMouseMoved.emit(inside)
    assert texts[-1].startswith("wina  ·  demo_choice: acc ")
    assert "± 0.016 (fraction)" in texts[-1]
    assert "gated 49.8 %  ·  target 50.0 %" in texts[-1]
    assert plot.keys_at(inside) == (wina.keys[1],)
