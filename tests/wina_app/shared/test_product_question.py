"""Nothing long is computed only because another job needs it: the user is asked."""

from dataclasses import replace
from pathlib import Path

import pytest
from wina_app.shared import product_question
from wina_app.shared.product_question import ProductQuestion, compute_question
from wina_app.widgets.base_page import Page
from wina_app.widgets.question import QuestionDialog

from tests.wina_app.fakes import Recorded, make_workbench
from tests.wina_app.stored_runs import SOURCE
from wina_core.jobs import RotateJob
from wina_core.jobs.planning import MemoryNeed, MissingProduct
from wina_core.model_info.cost.refinement import RefinementNeed
from wina_core.specs import RotationSpec

JOB = RotateJob(model=SOURCE, rotation=RotationSpec())
LONG = MissingProduct("rotation", "global refined + heads", JOB, seconds=720.0, begun=True)
SHORT = MissingProduct("calibration", "scap", JOB, seconds=4.0)
UNKNOWN = MissingProduct("allocation", "curves", JOB, slow=True)


@pytest.fixture
def bench(tmp_path, qapp, monkeypatch):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    missing = []
    monkeypatch.setattr(product_question, "missing_products", lambda _job: tuple(missing))
    yield workbench, engine, missing
    store.store.close()


@pytest.mark.parametrize(
    ("missing", "agrees", "silent", "goes"),
    [
        ([], False, False, True),
        ([SHORT], False, False, True),
        ([SHORT, LONG], True, False, True),
        ([LONG], False, False, False),
        ([LONG], True, True, False),
    ],
)
def test_a_long_product_is_computed_only_if_the_user_agrees(bench, missing, agrees, silent, goes):
    workbench, _, products = bench
    products += missing
    view, went = Recorded(Page, ask_compute=agrees), []
    question = ProductQuestion(workbench, view)
    question.before(JOB, lambda: went.append(True), declined=lambda: went.append(False), silent=silent)
    assert went == [goes]
    assert bool(view.calls("ask_compute")) == (LONG in missing and not silent)


@pytest.mark.parametrize(("refined", "goes"), [(False, True), (True, False)])
def test_nothing_is_asked_about_another_machine_where_only_a_refined_rotation_waits_for_the_user(bench, refined, goes):
    workbench, _, products = bench
    products.append(LONG)
    view, went = Recorded(Page, ask_compute=False), []
    question = ProductQuestion(workbench, view)
    rotation = RotationSpec(objective="error") if refined else RotationSpec()
    job = JOB.model_copy(update={"rotation": rotation})
    workbench.machines.choose(["gpu"])
    for silent, expected in ((False, True), (True, goes)):
        question.before(job, lambda: went.append(True), declined=lambda: went.append(False), silent=silent)
        assert went.pop() == expected
    assert not view.calls("ask_compute")


NEED = MemoryNeed(
    "big", weights=13.5e9, memory=8e9, disk=27e9, folder=Path("cache"), free=50e9, by_layer=1.2e9, machine=16e9
)


def test_a_model_that_memory_does_not_hold_is_asked_about_once(bench, monkeypatch):
    workbench, _, _ = bench
    monkeypatch.setattr(product_question, "memory_needs", lambda _job: (NEED,))
    view, went = Recorded(Page, ask_compute=True), []
    question = ProductQuestion(workbench, view)
    question.before(JOB, lambda: went.append("unasked"), silent=True)
    assert view.calls("ask_compute") == []
    question.before(JOB, lambda: went.append("first"))
    question.before(JOB, lambda: went.append("second"))
    assert went == ["unasked", "first", "second"]
    (asked,) = view.calls("ask_compute")
    assert asked.text == "big does not fit into free memory."


def test_the_question_sets_what_is_needed_against_what_there_is():
    asked = compute_question([LONG, SHORT], [NEED])
    assert [(row.name, row.needed, row.available, row.fits) for row in asked.resources] == [
        ("Memory, whole model loaded", "20.2 GB", "8.0 GB free", False),
        ("Memory, layer by layer", "1.2 GB", "8.0 GB free", True),
        ("Disk for rotated or converted weights (none if cached)", "27.0 GB", "50.0 GB in cache", True),
        ("Time of the preparations", "12:04 min", "", None),
    ]
    assert asked.text == (
        "big does not fit into free memory.\n"
        "This first needs computations that take a minute or more:\n"
        "Rotation global refined + heads: took 12:00 min before, continues from its finished stages"
    )
    assert asked.advice == "The weights are read from their files layer by layer; the numbers are the same."


def test_a_search_that_takes_much_is_asked_about_though_the_weights_fit():
    need = replace(NEED, memory=20e9, in_files=False, disk=0.0, search=RefinementNeed(memory=9e9, disk=3e9))
    question = compute_question([], [need])
    assert [(row.name, row.needed, row.available, row.fits) for row in question.resources] == [
        ("Memory of the rotation search", "9.0 GB", "6.5 GB free beside the weights", False),
        ("Disk of the rotation search", "3.0 GB", "50.0 GB in cache", True),
    ]
    assert question.text == "Finding the rotation of big takes 9.0 GB of memory beside its weights."
    assert question.advice == (
        "For the rotation search, free memory, choose fewer tokens of its text, or choose the objective eigen."
    )
    assert not question.fits
    assert compute_question([], [replace(need, memory=24e9)]).fits


def test_rotated_weights_and_search_must_fit_on_disk_together():
    need = replace(NEED, free=28e9, search=RefinementNeed(memory=1e9, disk=3e9))
    question = compute_question([], [need])
    assert [(row.name, row.needed, row.fits) for row in question.resources[-3:]] == [
        ("Disk for rotated or converted weights (none if cached)", "27.0 GB", None),
        ("Disk of the rotation search", "3.0 GB", None),
        ("Disk, both together", "30.0 GB", False),
    ]
    assert question.text == (
        "big does not fit into free memory.\nFinding the rotation of big takes 1.0 GB of memory beside its weights."
    )
    assert question.advice.endswith(
        "Free some space, set WINA_HOME to a folder on another disk, or choose no rotation."
    )


def test_the_time_is_what_is_known_of_it():
    def time(*missing: MissingProduct) -> str:
        return compute_question(missing, [NEED]).resources[-1].needed

    assert time(UNKNOWN) == "unknown, never computed here"
    assert compute_question([UNKNOWN], []).text.endswith("Allocation by curves: takes several minutes or more")
    assert time(UNKNOWN, LONG) == "more than 12:00 min"
    assert compute_question([LONG], []).resources == [], "nothing is short"


@pytest.mark.parametrize("needs", [[], [NEED]], ids=["everything fits", "too little"])
def test_computing_is_the_default_where_everything_fits(qtbot, needs):
    dialog = QuestionDialog(None, compute_question([LONG], needs))
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitUntil(lambda: dialog.focusWidget() is (dialog.cancel if needs else dialog.compute))
    assert (dialog.cancel.isDefault(), dialog.compute.isDefault()) == (bool(needs), not needs)
    with qtbot.waitSignal(dialog.accepted):
        dialog.compute.click()


def test_the_users_latest_request_counts(bench, monkeypatch):
    """A request that is never answered keeps no later one from starting, nor does one that nobody made."""
    workbench, _, _ = bench
    asked, went = [], []
    monkeypatch.setattr(workbench.checks, "ask", lambda _question, answer, _refused: asked.append(answer))
    question = ProductQuestion(workbench, Recorded(Page))
    question.before(JOB, lambda: went.append("silent"), silent=True)
    question.before(JOB, lambda: went.append("pressed"))
    question.before(JOB, lambda: went.append("silent"), silent=True)
    question.before(JOB, lambda: went.append("another"))
    for answer in asked:
        answer(((), ()))
    assert len(asked) == 3
    assert went == ["another"]
