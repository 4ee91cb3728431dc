"""The bars of tasks: which numbers they show, where they stand, and what is read off them."""

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from wina_app.models.results_bars import (
    MOST_ARMS,
    OWN_METRIC,
    bar_chart,
    bar_metrics,
    bar_sparsities,
    first_sparsity,
)
from wina_app.models.results_rows import make_entries
from wina_app.theme import apply_theme, method_colour
from wina_app.views.bars_plot import BarsPlot

from tests.wina_app.stored_runs import record_demo_study
from wina_core.store import Store


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Of the demo study, and of two tasks more whose values are those of its own."""
    with Store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'results.sqlite'}") as store:
        record_demo_study(store)
        stored = store.metric_rows()
    own = [row for row in stored if row.metric == "acc"]
    more = [
        row._replace(unit=task, task=task, metric=metric)
        for row in own
        for task, metrics in (("piqa", ("acc", "acc_norm")), ("boolq", ("acc",)))
        for metric in metrics
    ]
    return [*stored, *more]


@pytest.fixture(scope="module")
def entries(rows):
    return make_entries(rows)


@pytest.fixture(scope="module")
def model(rows):
    return rows[0].model_hash


def chart_of(entries, model, metric=OWN_METRIC, sparsity=0.5):
    return bar_chart(entries, model, metric, sparsity, None)


def test_what_there_is_to_choose(entries, model):
    assert bar_metrics(entries) == [OWN_METRIC, "acc", "acc_norm", "kl", "perplexity"]
    assert bar_sparsities(entries, model) == [0.25, 0.4, 0.5, 0.65]
    assert first_sparsity([0.25, 0.4, 0.65]) == 0.4
    assert first_sparsity([]) is None


def test_each_task_has_the_metric_that_tables_prefer(entries, model):
    chart = chart_of(entries, model)
    assert chart.tasks == ("boolq", "demo_choice", "piqa")
    assert [bar.metric for bar in chart.arms[0].bars] == ["acc", "acc", "acc_norm"]
    assert chart.metric == "own metric (fraction)"


def test_arms_of_other_sparsities_have_no_bars(entries, model, rows):
    chart = chart_of(entries, model, "acc", 0.65)
    assert [arm.name for arm in chart.arms] == ["teal", "wina", "wina, global + heads"]
    wanted = {row.run for row in rows if row.target_sparsity == 0.65}
    assert {arm.run for arm in chart.arms} == wanted
    dense = next(row for row in rows if row.method == "dense" and row.metric == "acc")
    assert [bar.value for bar in chart.dense] == [dense.value] * 3


def test_too_many_arms_are_counted_not_drawn(model, rows):
    one = next(row for row in rows if row.target_sparsity == 0.5 and row.metric == "acc")
    many = make_entries([one._replace(run=f"{number:03d}abc") for number in range(MOST_ARMS + 3)])
    chart = chart_of(many, model, "acc")
    assert (len(chart.arms), chart.left_out) == (MOST_ARMS, 3)
    assert len({arm.name for arm in chart.arms}) == MOST_ARMS, "told apart by their hashes"


@pytest.fixture
def plot(qtbot, qapp, entries, model):
    apply_theme(qapp, "light")
    shown = BarsPlot()
    qtbot.addWidget(shown)
    shown.resize(700, 300)
    with qtbot.waitExposed(shown):
        shown.show()
    shown.show_chart(chart_of(entries, model))
    qapp.processEvents()
    return shown


def test_arms_stand_beside_each_other_in_their_methods_colours(plot):
    teal, wina, rotated, dense, marks = plot.traces
    assert list(np.round([*teal.x[:1], *wina.x[:1], *rotated.x[:1]], 3)) == [-0.2, 0.0, 0.2]
    assert teal.colour.name() == method_colour("teal").name()
    assert wina.colour != rotated.colour, "one method, two arms"
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
    assert plot.keys_at(inside) == (wina.keys[1],)


def test_selected_arms_stand_out(plot):
    plot.highlight([plot.traces[1].keys[0]])
    faint = [item._bars.opts["brushes"][0].color().alphaF() < 1.0 for item in plot._items[:3]]
    assert faint == [True, False, True]
    plot.highlight(["another run"])
    assert [item._bars.opts["brushes"][0].color().alphaF() for item in plot._items[:3]] == [1.0] * 3


def test_names_of_tasks_are_shortened_where_they_would_overlap(plot, qapp):
    axis = plot.getPlotItem().getAxis("bottom")
    assert [text for _, text in axis._tickLevels[0]] == ["boolq", "demo_choice", "piqa"]
    plot.resize(300, 300)
    qapp.processEvents()
    assert "…" in axis._tickLevels[0][1][1]
    assert [text for _, text in plot.figure()[0].ticks] == ["boolq", "demo_choice", "piqa"]
