"""States and first metrics of a study's runs, and the table that shows them."""

import pytest
from PySide6.QtCore import Qt
from wina_app.jobs.job_list import JobList
from wina_app.shared.run_grid import Grid, read_grid, with_jobs
from wina_app.shared.run_grid_view import RunGrid, RunLegend

from tests.wina_app.stored_runs import NO_ROTATION, record_run, run_spec
from wina_core.jobs import EvaluateJob, Held, PendingRun, RunFailed, RunFinished, RunStarted, Started
from wina_core.specs import RunSpec
from wina_core.store import Store

SPARSITIES = (0.25, 0.4, 0.5, 0.65)


@pytest.fixture
def runs(store: Store) -> list[RunSpec]:
    """Four runs of which the first is stored."""
    specs = [run_spec("wina", NO_ROTATION, sparsity) for sparsity in SPARSITIES]
    record_run(store, specs[0])
    return specs


@pytest.fixture
def jobs(store: Store, runs: list[RunSpec]) -> JobList:
    """A job for the others, which has begun."""
    jobs = JobList()
    jobs.add("1", "Evaluate", EvaluateJob(runs=tuple(store.pending(runs))))
    jobs.apply(Started(job_id="1"))
    return jobs


def grid_of(store: Store, runs: list[RunSpec], queued: frozenset[str] = frozenset()) -> Grid:
    return read_grid(store, runs, store.pending(runs), queued)


def states(grid: Grid) -> list[str]:
    return [cell.state for cell in grid.cells.values()]


def test_cells_follow_the_runs_as_they_begin_fail_and_end(store, runs, jobs):
    pending: tuple[PendingRun, ...] = jobs["1"].job.runs
    hashes = [run.spec.content_hash() for run in pending]
    grid = grid_of(store, runs, frozenset(hashes))
    assert states(with_jobs(grid, jobs)) == ["done", "queued", "queued", "queued"]
    jobs.apply(RunStarted(job_id="1", run=hashes[0]))
    assert states(with_jobs(grid, jobs)) == ["done", "running", "queued", "queued"]
    jobs.apply(Held(job_id="1", held=True))
    assert states(with_jobs(grid, jobs)) == ["done", "paused", "queued", "queued"]
    jobs.apply(Held(job_id="1", held=False))
    jobs.apply(RunFailed(job_id="1", run=hashes[0], error="Memory ran out."))
    jobs.apply(RunStarted(job_id="1", run=hashes[1]))
    shown = with_jobs(grid, jobs)
    assert states(shown) == ["done", "failed", "running", "queued"]
    assert [cell.error for cell in shown.cells.values()] == ["", "Memory ran out.", "", ""]
    jobs.apply(RunFinished(job_id="1", run=hashes[1]))
    record_run(store, runs[2])
    assert states(with_jobs(grid_of(store, runs, frozenset(hashes)), jobs)) == ["done", "failed", "done", "queued"]


def test_a_complete_run_shows_its_first_tasks_metric(store, runs):
    cell = next(iter(grid_of(store, runs).cells.values()))
    stored = {row.metric: row.value for row in store.metric_rows() if row.task == "demo_choice"}
    assert cell.first is not None
    assert cell.first.value == stored[cell.first.metric]
    assert cell.text == f"{100 * cell.first.value:.1f} %"
    assert grid_of(store, runs).metric == f"{cell.first.metric} of demo_choice"


def test_a_click_on_a_stored_run_chooses_it_and_one_on_another_does_not(store, runs, qtbot):
    table, chosen = RunGrid(), []
    qtbot.addWidget(table)
    table.resize(800, 300)
    table.show()
    table.run_chosen.connect(chosen.append)
    grid = grid_of(store, runs)
    table.show_grid(grid)
    legend = RunLegend()
    qtbot.addWidget(legend)
    legend.show()
    legend.show_grid(grid)
    said = [word.text() for entry, _, word in legend._states.values() if entry.isVisible()]
    assert said == ["3 to do", "1 stored"]
    for column in range(2):
        centre = table.visualItemRect(table.item(0, column)).center()
        qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=centre)
    table.setCurrentCell(0, 0)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert chosen == [runs[0].content_hash()] * 2
    assert table.item(0, 0).toolTip().startswith("Stored")
