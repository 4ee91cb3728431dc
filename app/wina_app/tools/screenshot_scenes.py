"""The scenes of the screenshots: the demo model, with all that a page can show computed."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication, QDialog

from wina_app.pages.sparsity.presets import rising
from wina_core.jobs import EvaluateJob, PendingRun
from wina_core.specs import TextSpec
from wina_core.specs.quantization import PlanPair
from wina_core.studies.expand import bind, labelled, specs_of
from wina_core.studies.gallery import find_study, gallery

if TYPE_CHECKING:
    from wina_app.application import Application
    from wina_app.pages.results.plots.controller import Plot
    from wina_core.store import Store

Scene = Callable[[], Callable[[], object]]
"""A function that shows a scene and returns one that puts it away."""

_REST_SECONDS = 0.6
"""Longer than the pages' debounce."""
_STUDY = "demo-quick"
_DOCUMENTS, _TOKENS = 40, 2048
_SPARSITIES = (0.25, 0.4, 0.5, 0.65)
_SPARED, _SPARED_TO = ("k", "v"), 0.3
_SHOWN_STUDY = "paper-commonsense-llama-2-7b"
_INSPECTOR, _LAID_OUT_MS = 392, 300
_SELECTED = 0.5
_TIMED = "4096x11008"
_CELL = (3, 6)
"""Layer and projection of the inspected gate."""


@dataclass(frozen=True)
class Wait:
    """A condition to wait for."""

    description: str
    over: Callable[[], bool]


def rest() -> Wait:
    """Wait until everything is laid out and drawn."""
    end = time.monotonic() + _REST_SECONDS
    return Wait("the window", lambda: time.monotonic() > end)


def prepare(application: "Application", *, fill: bool) -> Iterator[Wait]:
    """Open the demo and compute the shown results; `fill` the database too."""
    workspace = application.workbench.workspace
    application.model.open("demo")
    yield Wait("the demo model", lambda: workspace.summary is not None)
    application.rotation.rotate()
    yield from _jobs(application)
    if fill:
        yield from _evaluate(application)
        yield from _time(application)
        _pages(application)["sparsity"].calibrate.click()
        yield from _jobs(application)
    _edit_plan(application)
    application.window.show_page("sparsity")
    heatmap = _pages(application)["sparsity"].heatmap
    heatmap.set_selection(heatmap.selection.click(_CELL))
    application.gate.inspect()
    yield from _jobs(application)
    application.playground.generate()
    yield from _jobs(application)
    for key in ("results", "studies"):  # they read the database when they are shown
        application.window.show_page(key)
        yield rest()


def _edit_plan(application: "Application") -> None:
    """Edit a plan: rising with depth, k and v spared at the others' cost."""
    workspace, editing = application.workbench.workspace, application.sparsity.editing
    plan = workspace.plan
    assert plan is not None  # a model is open
    layout = plan.layout
    editing.replace_plan(PlanPair(plan=rising(layout, workspace.method, plan.budget)), "a preset")
    editing.keep_budget(True)
    editing.paint(frozenset(product(range(layout.layers), map(layout.projections.index, _SPARED))), _SPARED_TO)
    editing.keep_budget(False)


def _evaluate(application: "Application") -> Iterator[Wait]:
    """Evaluate the gallery's first study on fewer documents and at more sparsities."""
    workbench, study = application.workbench, find_study(_STUDY)
    evaluation = study.evaluation.model_copy(update={"limit": _DOCUMENTS, "fidelity": TextSpec(tokens=_TOKENS)})
    study = bind(study, {}).model_copy(update={"sparsities": _SPARSITIES, "evaluation": evaluation})

    def question(store: "Store") -> list[PendingRun]:
        named = labelled(study)
        store.save_study(study, named)
        return store.pending(specs_of(named))

    def answer(runs: list[PendingRun]) -> None:
        workbench.submit(EvaluateJob(runs=tuple(runs)), f"Evaluate {len(runs)} runs: {_STUDY}")

    workbench.store.ask(question, answer)
    yield from _jobs(application)


def _time(application: "Application") -> Iterator[Wait]:
    """Time one shape of the paper's for one token."""
    application.window.show_page("latency")
    form = _pages(application)["latency"].form.products
    for row in range(form.presets.count()):
        form.presets.item(row).setCheckState(Qt.CheckState.Unchecked)
    form.shapes.setText(_TIMED)
    form.batches.setText("1")
    form.methods.boxes["teal"].setChecked(True)
    application.latency.measure()
    yield from _jobs(application)


def _jobs(application: "Application") -> Iterator[Wait]:
    """Wait until the submitted jobs are done and shown."""
    yield rest()
    active = application.workbench.jobs
    yield Wait("the jobs", lambda: not active.active)
    yield rest()


def scenes(application: "Application", *, before_model: bool) -> dict[str, Scene]:
    """Return the scenes by name; the start page only before a model."""
    if before_model:
        return {"start": lambda: _page(application, "model")}
    page_scenes: dict[str, Scene] = {key: partial(_page, application, key) for key in application.window.pages}
    return page_scenes | {
        "evaluate": lambda: _page(application, "evaluate", "jobs", "log"),
        "studies": lambda: _studies(application),
        "gate": lambda: _gate(application),
        "results": lambda: _results(application, "frontier"),
        "comparison": lambda: _results(application, "compare"),
        "help": lambda: _help(application),
        "palette": lambda: _palette(application),
        "settings": lambda: _settings(application),
    }


def _page(application: "Application", key: str, *docks: str) -> Callable[[], object]:
    window = application.window
    for name, dock in window.docks.items():
        dock.setVisible(name in docks)
    window.show_page(key)
    focused = QApplication.focusWidget()
    if focused is not None:  # no blinking caret, and no frame around a list
        focused.clearFocus()
    return lambda: None


def _pages(application: "Application") -> Mapping[str, Any]:
    """Return the pages without their common type, since scenes reach into each page's own parts."""
    return application.window.pages


def _gate(application: "Application") -> Callable[[], object]:
    """Show the gate inspector wide enough for its plots, scrolled down to them."""
    put_away = _page(application, "sparsity", "inspector")
    window, inspector = application.window, _pages(application)["sparsity"].inspector
    window.resizeDocks([window.docks["inspector"]], [_INSPECTOR], Qt.Orientation.Horizontal)

    def scroll() -> None:
        top = inspector.figures.mapTo(inspector.widget(), inspector.figures.rect().topLeft()).y()
        inspector.verticalScrollBar().setValue(top)

    QTimer.singleShot(_LAID_OUT_MS, inspector, scroll)
    return put_away


def _results(application: "Application", plot: "Plot") -> Callable[[], object]:
    """Show the fidelity to the dense model, with the runs at the middle sparsity selected."""
    put_away = _page(application, "results")
    page = _pages(application)["results"]
    page.plots.show_plot(plot)
    rows = page.controller.table.listed_rows
    page.controller.selection.select([row.run for row in rows if row.target_sparsity == _SELECTED])
    measures = page.plots.frontier.measure
    for at in range(measures.count()):
        if measures.itemData(at).metric == "kl":
            measures.setCurrentIndex(at)
            page.controller.plots.choose_measure(measures.itemData(at))
    return put_away


def _studies(application: "Application") -> Callable[[], object]:
    put_away = _page(application, "studies")
    application.studies.select(next(entry.file for entry in gallery() if entry.name == _SHOWN_STUDY))
    return put_away


def _help(application: "Application") -> Callable[[], object]:
    put_away = _page(application, "results", "help")
    application.window.show_help("first-result.md")
    return put_away


def _palette(application: "Application") -> Callable[[], object]:
    _page(application, "sparsity")
    application.window.open_palette()
    application.window.palette_view.field.setText("plan")
    return application.window.palette_view.close_palette


def _settings(application: "Application") -> Callable[[], object]:
    _page(application, "model")
    window = application.window
    window.open_settings()
    (dialog,) = (candidate for candidate in window.findChildren(QDialog) if candidate.isVisible())
    dialog.resize(window.width() // 2, window.height() * 4 // 5)  # it sizes itself by the screen, and there is none
    return dialog.close
