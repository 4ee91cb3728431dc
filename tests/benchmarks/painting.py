"""Painting on the sparsity heatmap of an 80-layer model: what one step of a stroke takes, from the pointer's move until
all that it changes is on the screen.

A step is a mouse move with the brush on, the controller's edit (with the budget kept, that of all cells), the tables,
the figures below and the profile beside, and the repaint, into memory (offscreen). 60 frames a second leave 16.7 ms.
Expected before it was measured: about 4 ms for the tables and the edit, 2 ms for a cell, and up to 15 ms for drawing
seven lines anew, so that the profile was to be what takes the longest. The peer is the same stroke on 8 layers.

The stored results are of a quiet machine. 95 % of the steps take at most 10.3 ms for a brush, 13.7 for a line, 13.7
with a jagged plan; with the budget kept 17.7 (13.8 in the median), 20.2 with a jagged plan, 24.1 on the large page.
So all but the last three keep the frame: with the budget kept, all seven lines change in every step.
"""

import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from comparing import Contender, Facts, TimingComparison, compare
from event_loop import wait
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication
from wina_app.pages.sparsity import connect_plans
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.services.store_thread import StoreThread
from wina_app.services.workspace import Workspace
from wina_app.style.theme import apply_stylesheet, apply_theme

from tests.wina_app.stored_runs import PROJECTIONS, SOURCE, summary
from wina_core.records import CalibrationRecord, LayerRecord
from wina_core.specs import CalibrationSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan

Step = tuple[float, float]
"""Wall seconds, and seconds of the main thread on a processor."""
FRAME_MS = 1000 / 60
STEPS = 60
"""Of a stroke: there and back over the visible cells, with a target that differs from step to step."""


@dataclass(frozen=True)
class Stroke:
    """One way of painting."""

    name: str
    layers: int = 80
    size: tuple[int, int] = (1208, 560)
    """Of the page, in a window of 1280 x 720."""
    keep: bool = False
    line: bool = False
    """Whether a line of the profile is dragged instead."""
    jagged: bool = False
    """Whether every cell has a target of its own when the stroke begins, rather than all the same."""


STROKES = (
    Stroke("8 layers", layers=8),
    Stroke("80 layers"),
    Stroke("budget kept", keep=True),
    Stroke("line dragged", line=True),
    Stroke("jagged plan", jagged=True),
    Stroke("jagged plan, budget kept", keep=True, jagged=True),
    Stroke("1920 x 1080, budget kept", size=(1848, 920), keep=True),
    Stroke("1920 x 1080, jagged plan, budget kept", size=(1848, 920), keep=True, jagged=True),
)


def measure(toy: bool) -> list[TimingComparison]:
    """On the main thread; the database is a temporary file with calibrated curves, so that all figures are live."""
    steps, repetitions = (2, 1) if toy else (STEPS, 10)
    strokes = (STROKES[0], replace(STROKES[1], layers=9)) if toy else STROKES
    seen: dict[str, list[Step]] = {stroke.name: [] for stroke in strokes}
    with TemporaryDirectory() as folder:
        ways = [
            Contender(stroke.name, partial(_ready, Path(folder), stroke, steps, seen[stroke.name]))
            for stroke in strokes
        ]
        found = compare(ways[0], ways[1:], repetitions, {"steps": steps, "frame_ms": FRAME_MS, "threads": 1})
    timings = tuple(replace(timing, facts=_facts(seen[timing.name][steps:], steps)) for timing in found.timings)
    return [replace(found, timings=timings)]


def _facts(seen: list[Step], steps: int) -> Facts:
    """Median and 95th percentile of a stroke's steps: in the median over the strokes, and the least of the latter."""
    strokes = 1000 * np.array(seen).reshape(-1, steps, 2)  # [stroke, step, wall and processor]
    of_strokes = np.percentile(strokes, (50, 95), axis=1)  # [median and p95, stroke, wall and processor]
    (wall, cpu), (wall95, cpu95) = np.median(of_strokes, axis=1)
    return {
        "step_median_ms": float(wall),
        "step_p95_ms": float(wall95),
        "step_cpu_median_ms": float(cpu),
        "step_cpu_p95_ms": float(cpu95),
        "best_p95_ms": float(of_strokes[1, :, 0].min()),
    }


@contextmanager
def _ready(folder: Path, stroke: Stroke, steps: int, seen: list[Step]) -> Iterator[Callable[[], None]]:
    app = _application()
    apply_theme(app, "light")
    file = folder / f"{stroke.layers}.sqlite"
    known = file.exists()
    store = StoreThread(str(file))
    store.start()
    workspace = Workspace()
    page = SparsityPage()
    page.controller, page.library = connect_plans(page, workspace, store)
    apply_stylesheet(page)
    page.resize(*stroke.size)
    page.show()
    model = summary(stroke.layers)
    if not known:
        record, configuration = _curves(stroke.layers), (workspace.rotation, workspace.method)
        store.write(
            lambda opened: opened.record_calibration(SOURCE, *configuration, CalibrationSpec(), record), _refuse
        )
    workspace.set_model(SOURCE, model)
    if stroke.jagged:
        workspace.set_plan(_jagged(model.layout))
    wait(app, lambda: page.figures.text("predicted") != "\N{EN DASH}", longest_s=60.0, pause_s=0.001)
    if stroke.keep:
        page.editor.keep.click()
    drag = _line(page, steps) if stroke.line else _zigzag(page, steps)
    try:
        yield partial(_drag, app, drag, seen)
    finally:
        page.close()
        page.deleteLater()
        store.finish()
        app.processEvents()


@cache
def _application() -> Any:
    """The process's only one, kept for as long as it lives; without a screen unless one was chosen."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    return QApplication.instance() or QApplication([])


def _drag(app: Any, drag: "Drag", seen: list[Step]) -> None:
    """Press, move and release; the time of each move ends when nothing is left to paint."""
    _send(drag, QEvent.Type.MouseButtonPress, drag.start)
    app.processEvents()
    for place in drag.moves:
        wall, cpu = time.perf_counter(), time.thread_time()
        drag.before()
        _send(drag, QEvent.Type.MouseMove, place)
        app.processEvents()
        seen.append((time.perf_counter() - wall, time.thread_time() - cpu))
    _send(drag, QEvent.Type.MouseButtonRelease, drag.moves[-1])


@dataclass(frozen=True)
class Drag:
    """The pointer's way over a viewport, and an action before each of its moves."""

    widget: Any
    start: QPointF
    moves: tuple[QPointF, ...]
    before: Callable[[], object] = lambda: None
    modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier


def _zigzag(page: SparsityPage, steps: int) -> Drag:
    """Down through the visible cells, one after another, with a brush of another target each time."""
    heatmap, slider = page.heatmap, page.editor.slider
    page.editor.brush.click()
    geometry = heatmap.geometry_now()
    rows = geometry.rows_in(heatmap.viewport().rect().adjusted(0, 0, 0, -round(geometry.cell_height)))
    cells = [(row, column) for row in rows for column in range(geometry.columns)]
    places = [geometry.cell(*cells[step % len(cells)]).center() for step in range(steps + 1)]
    targets = itertools.cycle(range(100, 900, 70))
    return Drag(heatmap.viewport(), places[0], tuple(places[1:]), lambda: slider.setValue(next(targets)))


def _line(page: SparsityPage, steps: int) -> Drag:
    """The first projection's line up and down, by one of its points, with Shift; to where it began, so that the next
    stroke finds it there."""
    profile = page.profile
    trace = profile.traces[0]
    middle = len(trace.x) // 2
    scene = profile.getPlotItem().vb.mapViewToScene(QPointF(trace.x[middle], trace.y[middle]))
    start = QPointF(profile.mapFromScene(scene))
    angles = np.linspace(0.0, 6 * math.pi, steps + 1)[1:]
    moves = tuple(start + QPointF(0, 60 * math.sin(angle)) for angle in angles)
    return Drag(profile.viewport(), start, moves, modifiers=Qt.KeyboardModifier.ShiftModifier)


def _send(drag: Drag, kind: QEvent.Type, place: QPointF) -> None:
    left = Qt.MouseButton.LeftButton
    buttons = Qt.MouseButton.NoButton if kind == QEvent.Type.MouseButtonRelease else left
    button = Qt.MouseButton.NoButton if kind == QEvent.Type.MouseMove else left
    screen = drag.widget.mapToGlobal(place)
    QApplication.sendEvent(drag.widget, QMouseEvent(kind, place, screen, button, buttons, drag.modifiers))


def _refuse(text: str) -> None:
    raise RuntimeError(text)


def _curves(layers: int) -> CalibrationRecord:
    """Errors of every cell at 20 targets, growing with depth."""
    records = tuple(
        LayerRecord(layer=layer, projection=name, metric="relative_error", x=x, value=x**2 * (1 + layer / layers))
        for layer in range(layers)
        for name in PROJECTIONS
        for x in np.linspace(0.0, 0.95, 20).tolist()
    )
    return CalibrationRecord(key="synthetic", tokens=16384, layers=records, seconds=1.0)


def _jagged(layout: PlanLayout) -> SparsityPlan:
    """No two targets are alike, from 20 to 80 %."""
    cells = np.random.default_rng(0).permutation(layout.layers * len(PROJECTIONS)).reshape(layout.layers, -1)
    rows = tuple(map(tuple, (0.2 + 0.6 * cells / cells.size).tolist()))
    return SparsityPlan(layout=layout, sparsity=rows, provenance="edited")
