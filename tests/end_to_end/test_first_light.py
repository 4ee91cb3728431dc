"""From a model to exported results in the real window, with a real engine; then the same study without the window."""

import csv
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFileDialog
from tqdm import tqdm
from wina_app.application import Application

from tests.wina_app.conftest import close
from wina_core.cli import app
from wina_core.store import Store

LIMIT, TOKENS, ROTATION_TOKENS = 2, 256, 512
ROTATION = "Global, from eigenvectors (free at run time)"
"""Refining takes minutes, and is no other way through the window."""
KEY = ("method", "rotation", "plan", "target_sparsity", "task", "metric")
NUMBERS = ("value", "stderr", "n", "gated_sparsity", "net_sparsity")


@pytest.fixture
def other_engines() -> list[psutil.Process]:
    """Those of other tests."""
    return engines()


@pytest.fixture
def application(qtbot, qapp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    """The window with its own database and an engine process."""
    monkeypatch.setenv("WINA_DATABASE", f"sqlite:///{tmp_path / 'window.sqlite'}")
    opened = Application(qapp)
    opened.window.resize(1280, 720)
    opened.start(page="model")
    yield opened
    close(qtbot, opened)


@pytest.mark.nightly  # by day test_first_use.py goes through the window, and wina_core/cli/test_cli.py does without
def test_the_window_and_the_command_line_give_the_same_numbers(
    other_engines: list[psutil.Process],
    application: Application,
    qtbot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workbench, window = application.workbench, application.window
    workspace = workbench.workspace

    def press(button) -> None:
        qtbot.waitUntil(button.isEnabled)
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)

    def save_as(path: Path, press_save) -> None:
        answer = (str(path), f"*{path.suffix}")
        monkeypatch.setattr(QFileDialog, "getSaveFileName", staticmethod(lambda *_, **__: answer))
        press_save()
        qtbot.waitUntil(path.is_file)

    window.pages["model"].dtype.setCurrentText("float32")
    press(window.pages["model"].demo)
    qtbot.waitUntil(lambda: workspace.summary is not None)

    rotation = window.pages["rotation"]
    window.show_page("rotation")
    preset = rotation.panel.preset
    preset.setCurrentText(ROTATION)
    preset.activated.emit(preset.currentIndex())
    rotation.panel.tokens.setValue(ROTATION_TOKENS)
    rotation.panel.tokens.editingFinished.emit()
    press(rotation.primary)
    qtbot.waitUntil(lambda: workspace.rotation_report is not None)
    assert workspace.rotation_report.logits_deviation < 1e-4, "float32 rounds the rotated weights"
    assert workspace.rotation_report.shortcut_parameters == 0, "a global rotation is free"

    sparsity = window.pages["sparsity"]
    window.show_page("sparsity")
    before = workspace.plan
    qtbot.mouseClick(sparsity.heatmap.viewport(), Qt.MouseButton.LeftButton, pos=centre_of(sparsity.heatmap, 2, 4))
    sparsity.editor.spin.setValue(80.0)
    qtbot.waitUntil(lambda: workspace.plan != before)
    assert workspace.plan.sparsity[2][4] == pytest.approx(0.8)
    assert workspace.plan.budget > before.budget

    evaluate = window.pages["evaluate"]
    window.show_page("evaluate")
    evaluate.tasks.limit.setValue(LIMIT)
    evaluate.tasks.fidelity_tokens.setValue(TOKENS)
    evaluate.configurations.sparsities.setText("50")
    evaluate.configurations.plan.setChecked(True)
    for box in evaluate.configurations.methods:
        box.setChecked(box.text() in ("dense", "wina"))
    for box, spec in evaluate.configurations.rotations.items():
        box.setChecked(spec == workspace.rotation)
    save_as(tmp_path / "study.json", lambda: press(evaluate.save))
    press(evaluate.primary)
    qtbot.waitUntil(lambda: any(entry.title.startswith("Evaluate") for entry in workbench.jobs))
    job_id = next(entry.id for entry in workbench.jobs if entry.title.startswith("Evaluate"))
    qtbot.waitUntil(lambda: not workbench.jobs[job_id].active)
    job = workbench.jobs[job_id]
    assert (job.phase, job.error) == ("done", "")

    results = window.pages["results"]
    window.show_page("results")
    with Store(os.environ["WINA_DATABASE"]) as store:
        stored = len(store.metric_rows())
    press(results.list.form.buttons["metrics"])
    qtbot.waitUntil(lambda: len(results.controller.table.listed_rows) == stored)
    qtbot.waitUntil(lambda: bool(results.plots.frontier.plot.traces))
    gated = next(index for index, entry in enumerate(results.controller.table.listed_rows) if entry.method == "wina")
    results.table.selectRow(gated)
    results.plots.show_plot("layers")
    qtbot.waitUntil(results.plots.layers.maps[0].isVisible)
    save_as(tmp_path / "shown.csv", lambda: press(results.primary))
    assert len(list(csv.reader((tmp_path / "shown.csv").open(encoding="utf-8")))) == stored + 1

    engine = psutil.Process(workbench.engine_pid)
    started = [each for each in engines() if each not in other_engines]
    assert engine in started
    started += engine.children(recursive=True)
    close(qtbot, application)
    assert not psutil.wait_procs(started, timeout=120)[1]

    in_window = numbers(os.environ["WINA_DATABASE"])
    assert {key[2] for key in in_window if key[0] == "wina"} == {"uniform", "edited"}
    monkeypatch.setattr(tqdm, "monitor_interval", 0)  # a thread of the progress bars, which would outlive the test
    assert computed_by_command_line(tmp_path / "study.json", tmp_path) == in_window


def engines() -> list[psutil.Process]:
    """This process's job host with its engines. Other children are none of the window's: libraries that earlier tests
    loaded start some, such as the tracker of shared resources, that live as long as the tests do."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ended while it was looked at
            if any(part.startswith("wina_core.engine") for part in child.cmdline()):
                found.append(child)
    return found


def computed_by_command_line(study: Path, folder: Path) -> dict[tuple, tuple]:
    """The study's numbers as `wina study run` computes them into a database of its own."""
    database = f"sqlite:///{folder / 'line.sqlite'}"
    app(["study", "run", str(study), "--database", database], standalone_mode=False)
    return numbers(database)


def numbers(database: str) -> dict[tuple, tuple]:
    """Everything measured, by what it was measured on."""
    with Store(database) as store:
        rows = store.metric_rows()
    found = {tuple(getattr(row, name) for name in KEY): tuple(getattr(row, name) for name in NUMBERS) for row in rows}
    assert len(found) == len(rows)
    return found


def centre_of(heatmap, row: int, column: int) -> QPoint:
    """Where a cell of the map is."""
    return heatmap.geometry_now().cell(row, column).center().toPoint()
