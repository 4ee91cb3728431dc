"""The Studies page with a real engine process, on the demo twin that needs no weights."""

import pytest
from PySide6.QtCore import Qt

from wina_core.files.paths import resources_folder
from wina_core.store import Store
from wina_core.studies.gallery import gallery

LOAD_MS, RUN_MS = 60_000, 240_000
STUDY = resources_folder() / "studies" / "demo" / "demo-gflops.toml"


@pytest.fixture
def two_studies(monkeypatch):
    entries = tuple(entry for entry in gallery() if "gflops" in entry.name)
    monkeypatch.setattr("wina_app.pages.studies.catalogue.gallery", lambda: entries)


@pytest.mark.usefixtures("two_studies")
def test_a_demo_study_is_run_stored_reused_and_its_results_shown(
    application_with_engine, qtbot, stall_watchdog, tmp_path
):
    workbench, window = application_with_engine.workbench, application_with_engine.window
    page = window.pages["studies"]
    window.show_page("studies")
    qtbot.waitUntil(lambda: workbench.environment is not None, timeout=LOAD_MS)
    qtbot.waitUntil(lambda: STUDY in page.list.files, timeout=LOAD_MS)
    stall_watchdog.start()
    page.list.select(STUDY)
    qtbot.waitUntil(lambda: page.primary.text() == "Run 20 measurements", timeout=LOAD_MS)
    qtbot.mouseClick(page.primary, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: page.launch.bar.isVisible(), timeout=LOAD_MS)
    (entry,) = workbench.jobs
    qtbot.waitUntil(lambda: not entry.active, timeout=RUN_MS)
    assert (entry.state, entry.units_stored) == ("done", 20)
    qtbot.waitUntil(lambda: page.list.text_of(STUDY).endswith("20 of 20 measurements stored"), timeout=LOAD_MS)
    assert not page.launch.bar.isVisible()
    assert not page.primary.isEnabled()

    qtbot.mouseClick(page.results, Qt.MouseButton.LeftButton)
    results = window.pages["results"]
    qtbot.waitUntil(
        lambda: results.isVisible() and [column.key for column in results.table.model().columns].count("paper") == 1,
        timeout=LOAD_MS,
    )
    with Store(f"sqlite:///{tmp_path / 'results.sqlite'}") as store:
        assert [(row.name, row.runs_done, row.runs_total) for row in store.studies()] == [("demo-gflops", 20, 20)]
