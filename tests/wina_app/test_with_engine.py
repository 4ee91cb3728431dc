"""The window with a real engine process, which its tests share."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from wina_app.application import Application
from wina_app.services.threads import EngineThread

from tests.wina_app.conftest import shown
from tests.wina_app.lent_engine import LentEngine, lent_engine
from wina_core.files.paths import resources_folder
from wina_core.jobs import EvaluateJob
from wina_core.specs import NO_ROTATION
from wina_core.store import Store
from wina_core.studies.gallery import gallery

STUDY = resources_folder() / "studies" / "demo" / "demo-gflops.toml"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LentEngine]:
    with lent_engine(tmp_path_factory.mktemp("engine")) as lent:
        yield lent


@pytest.fixture
def application(qtbot, qapp, engine, tmp_path, monkeypatch) -> Iterator[Application]:
    """The whole window over the engine, with the database `results.sqlite` of the test's folder."""
    monkeypatch.setenv("WINA_DATABASE", f"sqlite:///{tmp_path / 'results.sqlite'}")
    yield from shown(qtbot, Application(qapp, engine=EngineThread(engine.lend)), monkeypatch)


@pytest.mark.nightly  # by day tests/wina_app/pages/latency goes as far as the job, and a demo study times products
def test_a_sweep_is_measured_stored_and_shown_without_blocking_the_window(application, qtbot, stall_watchdog, tmp_path):
    workbench, window = application.workbench, application.window
    page = window.pages["latency"]
    window.show_page("latency")
    qtbot.waitUntil(lambda: workbench.environment is not None)
    stall_watchdog.start()
    form = page.form.products
    for row in range(form.presets.count()):
        form.presets.item(row).setCheckState(Qt.CheckState.Unchecked)
    form.shapes.setText("512x256")
    form.batches.setText("1")
    form.sparsities.setText("50")
    form.device.setText("cpu")
    form.repetitions.setValue(2)
    for ticks, wanted in ((form.dtypes, {"float32"}), (form.backends, {"reference"}), (form.dense_products, set())):
        for value, box in ticks.boxes.items():
            box.setChecked(value in wanted)
    qtbot.waitUntil(lambda: page.primary.text() == "Measure 2 points")
    qtbot.mouseClick(page.primary, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(page.message.isVisible)
    assert page.message.label.text().startswith("2 points measured, 0 stored before; memory bandwidth ")

    qtbot.waitUntil(lambda: page.table.model().rowCount() == 2)
    dense, gated = (entry.row for entry in page.table.model().shown)
    ways = [(row.cell("method"), row.cell("backend")) for row in (dense, gated)]
    assert ways == [("dense", "torch"), ("wina", "reference")]
    assert gated.record.measured_sparsity == pytest.approx(0.5)
    line, bound = page.plots.left.traces[:2]
    assert (line.name, list(line.x), list(line.y)) == ("wina", [50.0], [gated.record.speedup])
    assert bound.y[-1] == pytest.approx(2.0)
    (entry,) = workbench.jobs
    assert (entry.phase, entry.units_stored) == ("done", 2)
    with Store(f"sqlite:///{tmp_path / 'results.sqlite'}") as store:
        assert [row.point for row in store.latency_rows()] == [dense.point, gated.point]

    page.message.dismiss()
    qtbot.waitUntil(lambda: "2 of 2 already measured" in page.count.text())
    qtbot.waitUntil(lambda: page.primary.toolTip().startswith("All points are measured"))
    assert (page.primary.text(), page.primary.isEnabled()) == ("Measure 0 points", False)

    form.device.setText("cuda:99")
    qtbot.waitUntil(page.primary.isEnabled)  # the count of the other choice may arrive first
    qtbot.mouseClick(page.primary, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(page.message.isVisible)
    assert page.message.property("role") == "error"
    assert "CUDA" in page.message.label.text()


@pytest.fixture
def two_studies(monkeypatch):
    entries = tuple(entry for entry in gallery() if "gflops" in entry.name)
    monkeypatch.setattr("wina_app.pages.studies.catalogue.gallery", lambda: entries)


@pytest.mark.nightly
@pytest.mark.usefixtures("two_studies")
def test_a_demo_study_is_run_stored_reused_and_its_results_shown(application, qtbot, stall_watchdog, tmp_path):
    workbench, window = application.workbench, application.window
    page = window.pages["studies"]
    window.show_page("studies")
    qtbot.waitUntil(lambda: workbench.environment is not None)
    qtbot.waitUntil(lambda: STUDY in page.list.files)
    stall_watchdog.start()
    page.list.select(STUDY)
    qtbot.waitUntil(lambda: page.primary.text() == "Run 20 measurements")
    qtbot.mouseClick(page.primary, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: page.launch.bar.isVisible())
    (entry,) = workbench.jobs
    qtbot.waitUntil(lambda: not workbench.jobs[entry.id].active)
    entry = workbench.jobs[entry.id]
    assert (entry.phase, entry.units_stored) == ("done", 20)
    qtbot.waitUntil(lambda: page.list.text_of(STUDY).endswith("20 of 20 measurements stored"))
    assert not page.launch.bar.isVisible()
    assert not page.primary.isEnabled()

    qtbot.mouseClick(page.results, Qt.MouseButton.LeftButton)
    results = window.pages["results"]
    qtbot.waitUntil(results.isVisible)
    model = results.table.model()
    qtbot.waitUntil(lambda: any(column.key.startswith("paper\t") for column in model.columns))
    with Store(f"sqlite:///{tmp_path / 'results.sqlite'}") as store:
        assert [(row.name, row.runs_done, row.runs_total) for row in store.studies()] == [("demo-gflops", 20, 20)]


@pytest.mark.nightly  # by day tests/wina_app/pages/sparsity edits both, and the Evaluate page's tests queue the plan
def test_bits_and_targets_of_the_sparsity_page_are_those_of_a_run(application, qtbot, tmp_path):
    workbench, window = application.workbench, application.window
    workspace, page, evaluate = workbench.workspace, window.pages["sparsity"], window.pages["evaluate"]
    window.pages["model"].open_requested.emit("demo", "float32", "none")
    qtbot.waitUntil(lambda: workspace.summary is not None)
    workspace.set_rotation(NO_ROTATION)
    window.show_page("sparsity")
    qtbot.mouseClick(page.toolbar.edited.buttons["bits"], Qt.MouseButton.LeftButton)
    page.quantization.quantizer.setCurrentText("RTN")
    next(each for each in page.toolbar.presets.menu().actions() if each.text() == "4 bits").trigger()
    heatmap = page.heatmap
    heatmap.set_selection(heatmap.selection.click((0, 0)))
    qtbot.keyClicks(heatmap, "8\r")
    qtbot.mouseClick(page.toolbar.edited.buttons["sparsity"], Qt.MouseButton.LeftButton)
    qtbot.keyClicks(heatmap, "25\r")
    assert "target sparsity 25 %, 8 b" in heatmap.description().lower()

    qtbot.mouseClick(page.primary, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(evaluate.isVisible)
    evaluate.tasks.limit.setValue(2)
    for box in (evaluate.tasks.fidelity, evaluate.tasks.original):
        box.setChecked(False)
    qtbot.waitUntil(evaluate.primary.isEnabled)
    qtbot.mouseClick(evaluate.primary, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: any(isinstance(each.job, EvaluateJob) for each in workbench.jobs))
    job_id = next(each.id for each in workbench.jobs if isinstance(each.job, EvaluateJob))
    qtbot.waitUntil(lambda: not workbench.jobs[job_id].active)
    job = workbench.jobs[job_id]
    assert (job.phase, job.error) == ("done", "")
    with Store(f"sqlite:///{tmp_path / 'results.sqlite'}") as store:
        specs = [store.run_spec(run.spec.content_hash()) for run in job.job.runs]
    plan, bits = workspace.plan, workspace.quantization
    assert (plan.sparsity[0][0], bits.quantizer, bits.bits.bits[0][:2]) == (0.25, "rtn", (8, 4))
    assert {spec.model.quantization for spec in specs} == {bits}
    assert [spec.plan for spec in specs if spec.method.name == "wina"] == [plan]

    page.toolbar.bits_chosen.emit(16)
    application.open_plan(next(spec.content_hash() for spec in specs if spec.method.name == "wina"))
    qtbot.waitUntil(lambda: workspace.quantization == bits)
    assert workspace.plan == plan
