"""The Latency page with a real engine process, on a tiny product with the reference backend."""

import pytest
from PySide6.QtCore import Qt

from wina_core.store import Store

LOAD_MS, RUN_MS = 60_000, 240_000


def test_a_sweep_is_measured_stored_and_shown_without_blocking_the_window(
    application_with_engine, qtbot, stall_watchdog, tmp_path
):
    workbench, window = application_with_engine.workbench, application_with_engine.window
    page = window.pages["latency"]
    window.show_page("latency")
    qtbot.waitUntil(lambda: workbench.environment is not None, timeout=LOAD_MS)
    stall_watchdog.start()
    form = page.form.products
    for row in range(form.presets.count()):
        form.presets.item(row).setCheckState(Qt.CheckState.Unchecked)
    form.shapes.setText("512x256")
    form.batches.setText("1")
    form.sparsities.setText("50")
    form.device.setText("cpu")
    form.repetitions.setValue(2)
    for ticks, wanted in ((form.dtypes, {"float32"}), (form.backends, {"reference"})):
        for value, box in ticks.boxes.items():
            box.setChecked(value in wanted)
    qtbot.waitUntil(lambda: page.primary.text() == "Measure 2 points", timeout=LOAD_MS)
    qtbot.mouseClick(page.primary, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(page.message.isVisible, timeout=RUN_MS)
    assert page.message.label.text().startswith("2 points measured, 0 stored before; memory bandwidth ")

    qtbot.waitUntil(lambda: page.table.model().rowCount() == 2, timeout=LOAD_MS)
    dense, gated = (entry.row for entry in page.table.model().shown)
    assert (dense.method, dense.backend, gated.method, gated.backend) == ("dense", "torch", "wina", "reference")
    assert gated.measured_sparsity == pytest.approx(0.5)
    (line, roofline) = page.plots.left.traces
    assert (line.name, list(line.x), list(line.y)) == ("wina", [50.0], [gated.speedup])
    assert roofline.y[-1] == pytest.approx(2.0)
    (entry,) = workbench.jobs
    assert (entry.state, entry.units_stored) == ("done", 2)
    with Store(f"sqlite:///{tmp_path / 'results.sqlite'}") as store:
        assert [row.point for row in store.latency_rows()] == [dense.point, gated.point]

    page.message.hide()
    qtbot.waitUntil(lambda: "2 of 2 already measured" in page.count.text(), timeout=LOAD_MS)
    qtbot.mouseClick(page.primary, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(page.message.isVisible, timeout=RUN_MS)
    assert page.message.label.text() == "0 points measured, 2 stored before."

    page.message.hide()
    form.device.setText("cuda:99")
    qtbot.waitUntil(lambda: page.count.text() != "Counting\N{HORIZONTAL ELLIPSIS}", timeout=LOAD_MS)
    qtbot.mouseClick(page.primary, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(page.message.isVisible, timeout=RUN_MS)
    assert page.message.property("role") == "error"
    assert "CUDA" in page.message.label.text()
