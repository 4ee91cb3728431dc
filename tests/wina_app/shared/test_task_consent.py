"""The window asks before the code of a task folder runs, shows it, and asks again after a change."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QDialog, QWidget
from wina_app.pages.evaluate.controller import EvaluateController
from wina_app.pages.evaluate.page import EvaluatePage
from wina_app.pages.studies.controller import StudiesController
from wina_app.pages.studies.page import StudiesPage
from wina_app.shared.task_consent import TaskCodeDialog, ask_task_code

from tests.wina_app.fakes import Recorded, load, make_workbench
from tests.wina_app.pages.evaluate.test_controller import CHOICE, DEMO
from tests.wina_core.compute.evaluation.task_files import CHOICE as TASK
from wina_core.jobs import EvaluateJob
from wina_core.specs import Configuration, EvaluationSpec
from wina_core.specs.machine import Machine
from wina_core.specs.studies import StudySpec
from wina_core.studies.gallery import GalleryEntry
from wina_core.studies.launch import LaunchOptions
from wina_core.studies.tasks.task_code import TaskCode, code_of
from wina_core.studies.tasks.task_folder import TaskFolder


class Asked(list[Path]):
    """What is asked about, and answered."""

    trusted = True

    def answer(self, codes: tuple[TaskCode, ...], _: object) -> bool:
        self.extend(code.folder for code in codes)
        return self.trusted


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr("wina_app.shared.task_consent.ask_task_code", asked.answer)
    return asked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task that is scored by a function beside it."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "own.py").write_text("def score(doc, results):\n    return {'acc': 1.0}\n")
    (folder / "own.yaml").write_text(TASK.replace("tiny_choice", "own") + "process_results: !function own.score\n")
    return folder


def code(folder: Path) -> TaskCode:
    read = TaskFolder(folder)
    (found,) = code_of([read], read.tasks)
    return found


def evaluating(tmp_path: Path, folder: Path) -> tuple[EvaluateController, Recorded, Any]:
    workbench, engine, _ = make_workbench(tmp_path)
    view = Recorded(EvaluatePage, choice=replace(CHOICE, tasks=("own",), task_folders=(str(folder),)))
    controller = EvaluateController(workbench, view)
    load(workbench, DEMO)
    return controller, view, engine


@pytest.mark.usefixtures("qapp")
def test_a_trusted_folder_is_asked_about_once_until_it_changes(tmp_path: Path, folder: Path, asked: Asked) -> None:
    controller, view, engine = evaluating(tmp_path, folder)
    for number in range(2):
        view.returns(choice=replace(view.choice(), limit=number + 1))
        controller.evaluate()
        assert engine.submitted[number].job.task_code == {str(folder): code(folder).digest}
    assert len(asked) == 1
    (folder / "own.py").write_text("import os\n")
    view.returns(choice=replace(view.choice(), limit=3))
    asked.trusted = False
    controller.evaluate()
    assert len(asked) == len(engine.submitted) == 2
    assert "not trusted" in view.last("show_notice")


@pytest.mark.usefixtures("qapp")
def test_a_folder_is_asked_about_once_for_all_machines(tmp_path: Path, folder: Path, asked: Asked) -> None:
    workbench, engine, _ = make_workbench(tmp_path)
    workbench.machines.save(Machine(host="gpu"))
    view = Recorded(EvaluatePage, choice=replace(CHOICE, tasks=("own",), task_folders=(str(folder),)))
    controller = EvaluateController(workbench, view)
    load(workbench, DEMO)
    for number, place in enumerate(([], ["gpu"], ["gpu", "local"], [])):
        view.returns(choice=replace(view.choice(), limit=number + 1))
        workbench.machines.choose(place)
        controller.evaluate()
    assert [submit.machines for submit in engine.submitted] == [(), ("gpu",), ("gpu", "local"), ()]
    assert len(asked) == 1
    assert view.calls("withdraw_consent"), "that for the model's code is for the place of the launch"


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize("trusted", [True, False])
def test_a_study_asks_before_it_is_measured(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, asked: Asked, trusted: bool
) -> None:
    evaluation = EvaluationSpec(tasks=("own",), task_folders=(str(folder),), fidelity=None)
    study = StudySpec(name="own", models=(DEMO,), configurations=(Configuration(),), evaluation=evaluation)
    file = tmp_path / "own.toml"
    monkeypatch.setattr("wina_app.pages.studies.catalogue.gallery", lambda: (GalleryEntry(file, "own", study),))
    workbench, engine, store = make_workbench(tmp_path)
    asked.trusted = trusted
    view = Recorded(StudiesPage, choice=LaunchOptions())
    controller = StudiesController(workbench, view)
    controller.set_visible(True)
    while controller._catalogue.read_next():
        pass
    controller.run()
    jobs = [submit.job for submit in engine.submitted]
    assert [type(job) for job in jobs] == ([EvaluateJob] if trusted else [])
    assert all(job.task_code == {str(folder): code(folder).digest} for job in jobs)
    assert len(store.store.studies()) == trusted


def test_the_question_shows_every_file_and_refuses_by_default(qtbot: Any, folder: Path) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = TaskCodeDialog(code(folder), parent)
    assert "own.yaml: process_results: !function own.score" in dialog.requests.toPlainText()
    shown = {}
    for row in range(dialog.files.count()):
        dialog.files.setCurrentRow(row)
        shown[dialog.files.currentItem().text()] = dialog.text.toPlainText()
    assert shown == {name: (folder / name).read_text() for name in ("own.py", "own.yaml")}
    assert dialog.text.isReadOnly()
    assert dialog.refuse.isDefault()


@pytest.mark.parametrize("answer", [QDialog.DialogCode.Accepted, QDialog.DialogCode.Rejected])
def test_the_answer_is_the_pressed_button(
    qtbot: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, answer: QDialog.DialogCode
) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    monkeypatch.setattr(TaskCodeDialog, "exec", lambda _: answer)
    assert ask_task_code([code(folder)], parent) is (answer == QDialog.DialogCode.Accepted)
