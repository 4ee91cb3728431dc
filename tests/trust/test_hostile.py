"""Hostile task files run nothing and end in one sentence."""

import os
from pathlib import Path

import pytest

from tests.trust.hostile_tasks import CASES, task, write
from wina_core.compute import render_limits
from wina_core.compute.evaluation import tasks
from wina_core.compute.evaluation.tasks import check_tasks, load_task
from wina_core.errors import WinaError
from wina_core.specs import EvaluationSpec
from wina_core.studies.tasks.task_code import code_of
from wina_core.studies.tasks.task_folder import TaskFolder


def _ask(folder: Path) -> None:
    check_tasks(EvaluationSpec(tasks=("evil",), task_folders=(str(folder),), fidelity=None))
    (loaded,) = load_task("evil", [str(folder)])["tasks"].values()  # for templates that only prompts need
    loaded.set_config("num_fewshot", loaded.config.num_fewshot or 0)
    loaded.set_fewshot_seed(0)
    loaded.build_all_requests(rank=0, world_size=1)


def test_an_honest_task_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_stock_paths", dict)
    _ask(write(task(), tmp_path / "tasks", tmp_path / "canary"))


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_task_is_refused_and_runs_nothing(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_stock_paths", dict)
    monkeypatch.setattr(render_limits, "SECONDS", 0.1)
    canary = tmp_path / "canary"
    folder = write(CASES[case], tmp_path / "tasks", canary)
    monkeypatch.chdir(folder)
    before = sorted(os.walk(tmp_path))
    with pytest.raises(WinaError) as refused:
        _ask(folder)
    assert "\n" not in str(refused.value)
    assert not canary.exists()
    assert sorted(os.walk(tmp_path)) == before


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith(("function: a function", "reader"))])
def test_the_window_asks_for_whatever_the_engine_refuses(case: str, tmp_path: Path) -> None:
    folder = TaskFolder(write(CASES[case], tmp_path / "tasks", tmp_path / "canary"))
    assert any(line for code in code_of([folder], folder.tasks) for line in code.requests) or folder.problems
