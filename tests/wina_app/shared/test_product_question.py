"""Nothing long is computed only because another job needs it: the user is asked."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel
from wina_app.pages.sparsity.allocation_controller import AllocationController
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.pages.sparsity.plan_editor import PlanEditor
from wina_app.shared import product_question
from wina_app.shared.product_question import ProductQuestion, compute_question
from wina_app.style.theme import apply_stylesheet
from wina_app.widgets.base_page import Page
from wina_app.widgets.controls import ElidedLabel
from wina_app.widgets.question import QuestionDialog

from tests.wina_app.fakes import Recorded, load, make_workbench
from tests.wina_app.layout_checks import clipped_texts
from tests.wina_app.stored_runs import SOURCE
from wina_core.jobs import RotateJob
from wina_core.jobs.planning import MemoryNeed, MissingProduct
from wina_core.model_info.cost.refinement import RefinementNeed
from wina_core.specs import AllocatorSpec, RotationSpec

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


def test_a_job_for_another_machine_ends_the_wait_for_this_ones_files(bench, monkeypatch):
    workbench, _, _ = bench
    unanswered = []
    monkeypatch.setattr(workbench.checks, "ask", lambda *request: unanswered.append(request))
    question, went = ProductQuestion(workbench, Recorded(Page)), []
    question.before(JOB, lambda: went.append("here"))
    question.before(JOB, lambda: went.append("there"), machines=("gpu",))
    question.before(JOB, lambda: went.append("silent"), silent=True, machines=("gpu",))
    assert went == ["there", "silent"]


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


def test_a_larger_need_of_an_accepted_model_is_asked_about(bench, monkeypatch):
    workbench, _, _ = bench
    needs = [NEED]
    monkeypatch.setattr(product_question, "memory_needs", lambda _job: tuple(needs))
    view = Recorded(Page, ask_compute=True)
    question = ProductQuestion(workbench, view)
    for need in (NEED, replace(NEED, free=40e9), replace(NEED, disk=60e9), replace(NEED, disk=60e9, memory=7e9)):
        needs[:] = [need]
        question.before(JOB, lambda: None)
    assert [asked.resources[-1].needed for asked in view.calls("ask_compute")] == ["27.0 GB", "60.0 GB"]


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


@pytest.mark.parametrize(
    ("changed", "resource", "advice"),
    [
        ({"machine": 24e9}, "Memory, whole model loaded", "Without the limit on memory it fits: 24.0 GB are free"),
        ({"memory": 1e9}, "Memory, layer by layer", "Layer by layer it takes 1.2 GB: allow or free that much"),
        (
            {"free": 20e9},
            "Disk for rotated or converted weights (none if cached)",
            "Free some space, set WINA_HOME to a folder on another disk",
        ),
    ],
)
def test_where_something_is_short_the_question_says_what_fits(changed, resource, advice):
    asked = compute_question([], [replace(NEED, **changed)])
    short = [row.name for row in asked.resources if row.fits is False]
    assert resource in short
    assert advice in asked.advice


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


def test_no_text_of_the_question_is_cut_off(qtbot):
    folder = Path("/a/long/folder") / "on a disk" / "with some more room than others" / "cache"
    need = replace(NEED, folder=folder, search=RefinementNeed(memory=9e9, disk=3e9))
    dialog = QuestionDialog(None, compute_question([LONG], [need]))
    qtbot.addWidget(dialog)
    apply_stylesheet(dialog)
    dialog.show()
    labels = dialog.findChildren(QLabel)
    lines = [each for each in labels if not each.wordWrap()]
    qtbot.waitUntil(lambda: all(each.height() >= each.sizeHint().height() for each in lines))
    assert all(each.width() >= each.sizeHint().width() for each in lines if not isinstance(each, ElidedLabel))
    assert clipped_texts(dialog) == []
    wrapped = [each for each in labels if each.wordWrap()]
    assert all(each.height() >= each.heightForWidth(each.width()) for each in wrapped)
    assert any(str(folder) in each.toolTip() for each in dialog.findChildren(ElidedLabel))


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


def test_a_question_that_fails_does_not_keep_the_next_one(bench, monkeypatch):
    workbench, _, products = bench
    products.append(LONG)
    view, went = Recorded(Page, ask_compute=True), []
    question = ProductQuestion(workbench, view)
    monkeypatch.setattr(view, "ask_compute", lambda _question: 1 / 0, raising=False)
    with pytest.raises(ZeroDivisionError):
        question.before(JOB, lambda: went.append("first"))
    products.clear()
    question.before(JOB, lambda: went.append("second"), silent=True)
    assert went == ["second"]


def test_an_allocation_asks_before_a_long_rotation(bench):
    workbench, engine, products = bench
    products.append(LONG)
    load(workbench)
    view = Recorded(SparsityPage, ask_compute=False)
    controller = AllocationController(workbench, view, PlanEditor(workbench.workspace, Recorded(SparsityPage)))
    controller.allocate(AllocatorSpec(name="curves"), 0.5)
    assert "global refined" in view.last("ask_compute").text
    assert not engine.submitted
    view.returns(ask_compute=True)
    controller.allocate(AllocatorSpec(name="curves"), 0.5)
    assert len(engine.submitted) == 1
