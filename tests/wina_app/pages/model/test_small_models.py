"""Small models in the window: their cards, the licence, fetching and opening."""

import json
import threading

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from wina_app.pages.model.controller import ModelController
from wina_app.pages.model.page import ModelPage
from wina_app.pages.model.start_view import LicenceDialog

from tests.wina_app.fakes import Recorded, make_workbench
from wina_core.errors import WinaError
from wina_core.model_info.small_models import SMALL_MODELS, fetched_from

NAME = "smollm2-135m"
MODEL = SMALL_MODELS[NAME]


def put_here() -> None:
    """Make the model one that was fetched from the hub, whose files no test needs."""
    MODEL.folder.mkdir(parents=True, exist_ok=True)
    MODEL.record.write_text(json.dumps({"source": "hub"}))


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(ModelPage, ask_licence=True)
    yield ModelController(workbench, view), view, workbench, engine
    store.store.close()


@pytest.fixture
def fetching(monkeypatch):
    """A fetch that reports progress until it is allowed to end, or raises what it is given."""
    ends, begun, errors = threading.Event(), [], []

    def fetch(model, report):
        begun.append(model.name)
        if errors:
            raise errors.pop()
        while not ends.wait(0.01):
            report(5e7, model.download_size)
        put_here()

    monkeypatch.setattr("wina_core.model_info.fetching.fetch_model", fetch)
    yield ends, begun, errors
    ends.set()


def job_of(workbench):
    (entry,) = workbench.jobs
    return entry


def test_a_model_is_fetched_after_its_licence_was_accepted_and_then_opened(bench, fetching, qtbot):
    controller, view, workbench, engine = bench
    assert view.calls("show_origin") == list(SMALL_MODELS)
    controller.open(NAME)
    assert view.last("ask_licence") == MODEL
    qtbot.waitUntil(lambda: job_of(workbench).fraction == pytest.approx(5e7 / MODEL.download_size))
    assert job_of(workbench).title == "Fetch SmolLM2 135M"
    controller.open(NAME)
    assert len(list(workbench.jobs)) == 1, "it is fetched once, however often it is requested"
    fetching[0].set()
    qtbot.waitUntil(lambda: bool(engine.submitted))
    assert engine.last.job.model.location == MODEL.hub_id
    assert fetched_from(MODEL) == "hub"
    controller.open(NAME)
    assert view.calls("ask_licence") == [MODEL], "it is here now"


def test_a_failed_fetch_is_a_sentence_with_a_second_try(bench, fetching, qtbot):
    controller, view, workbench, engine = bench
    fetching[2].append(WinaError("There is no network."))
    controller.open(NAME)
    qtbot.waitUntil(lambda: job_of(workbench).phase == "failed")
    assert view.last("show_error") == "There is no network."
    fetching[0].set()
    view.named("show_error")["retry"]()
    qtbot.waitUntil(lambda: bool(engine.submitted))


@pytest.mark.parametrize("accepts", [True, False])
def test_the_licence_is_shown_with_its_link_and_accepted_by_a_button_alone(qtbot, accepts):
    page = ModelPage()
    qtbot.addWidget(page)
    seen = []

    def answer() -> None:
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, LicenceDialog)
        seen.append((dialog.link.text(), dialog.cancel.isDefault()))
        (dialog.accept_button if accepts else dialog.cancel).click()

    QTimer.singleShot(0, answer)
    assert page.ask_licence(SMALL_MODELS["gemma3-270m"]) is accepts
    assert seen == [("https://ai.google.dev/gemma/terms", True)]
