"""Layers of selected runs: targets and measurements over depth, and maps beside each other."""

import numpy as np
import pytest
from wina_app.pages.results.plots.layers import (
    EACH,
    MEAN,
    ResultsLayers,
    profile_traces,
    read_layers,
)
from wina_app.style.theme import apply_theme

from tests.wina_app.stored_runs import NO_ROTATION, PROJECTIONS, layout, record_run, run_spec
from wina_core.specs.plans import SparsityPlan
from wina_core.store import Store


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A uniform run, one with a table of its own, and a dense one."""
    table = SparsityPlan.uniform(layout(), 0.5).with_cells({(0, 0): 0.25, (7, 6): 0.75})
    specs = (
        run_spec("wina", NO_ROTATION, 0.4),
        run_spec("teal", NO_ROTATION, table),
        run_spec("dense", NO_ROTATION, 0.0),
    )
    with Store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'results.sqlite'}") as store:
        hashes = [record_run(store, spec) for spec in specs]
        rows = {row.run: row for row in store.metric_rows()}
        return read_layers(store, [rows[run] for run in hashes])


def test_targets_are_those_of_the_plan(runs):
    uniform, edited, dense = runs
    assert uniform.projections == PROJECTIONS
    assert (uniform.target == 0.4).all()
    assert (edited.target[0, 0], edited.target[7, 6], edited.target[3, 3]) == (0.25, 0.75, 0.5)
    assert uniform.measured[0, 1] == pytest.approx(0.4 + 0.01 * np.sin(1))
    assert (dense.target, dense.measured) == (None, None)


def test_profiles_of_the_mean_of_one_projection_and_of_each(runs):
    mean = profile_traces(runs, MEAN)
    assert [trace.name for trace in mean] == [
        f"{run.name}, {kind}" for run in runs[:2] for kind in ("target", "measured")
    ]
    assert mean[2].y[0] == pytest.approx(100 * (0.5 - 0.25 / 7))
    (_, _, target, _) = profile_traces(runs, "q")
    assert target.y[:2] == [25.0, 50.0]
    each = profile_traces(runs[:1], EACH)
    assert [trace.name for trace in each[:3]] == ["q, target", "q, measured", "k, target"]
    assert len(each) == 2 * len(PROJECTIONS)
    assert each[0].readout(1) == f"{runs[0].name}, q, target: layer 1, 40.00 %"


@pytest.fixture
def maps(qtbot, qapp):
    apply_theme(qapp, "light")
    view = ResultsLayers()
    qtbot.addWidget(view)
    view.resize(900, 300)
    view.show()
    return view


def test_one_map_or_two_beside_each_other(maps, runs):
    assert "Select a row" in maps.remark.text()
    maps.show_runs(runs[:1])
    assert [panel.title for panel in maps.figure()] == ["wina, 39.8 % (target 40 %), uniform"]
    maps.show_runs(runs[:2])
    assert [panel.title for panel in maps.figure()] == [run.name for run in runs[:2]]
    maps.show_runs(runs[2:])
    assert "Nothing was gated" in maps.remark.text()
    assert maps.figure() == ()
