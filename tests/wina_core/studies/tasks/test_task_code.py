"""Consent to run the code of task folders: what needs it, what it holds for, and how it is given."""

import os
import stat
from pathlib import Path

import pytest

from tests.wina_core.compute.evaluation.task_files import CHOICE, consent, write_tasks
from tests.wina_core.conftest import Wina
from wina_core.compute.evaluation import tasks
from wina_core.compute.evaluation.lm_eval_adapter import metric_registry
from wina_core.compute.evaluation.tasks import check_tasks, load_task
from wina_core.errors import WinaError
from wina_core.files.paths import config_folder
from wina_core.jobs import PendingRun
from wina_core.specs import Configuration, EvaluationSpec, ModelSource, RunSpec
from wina_core.specs.studies import StudySpec
from wina_core.studies.expand import save_study_file
from wina_core.studies.tasks import task_folder
from wina_core.studies.tasks.task_code import METRICS, allow, allowed_code, not_allowed, requested_code, task_code
from wina_core.studies.tasks.task_folder import TaskFolder

pytestmark = pytest.mark.usefixtures("home")
DEMO = ModelSource(location="demo")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The tiny tasks, and one that is scored by a function beside it."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    write_tasks(folder)
    (folder / "own.py").write_text("def score(doc, results):\n    return {'surprise': 1.0}\n")
    (folder / "own.yaml").write_text(CHOICE.replace("tiny_choice", "own") + "process_results: !function own.score\n")
    return folder


def runs(folder: Path, *names: str) -> list[PendingRun]:
    evaluation = EvaluationSpec(tasks=names, task_folders=(str(folder),), fidelity=None, limit=1)
    return [PendingRun(spec=RunSpec(model=DEMO, evaluation=evaluation), units=evaluation.units)]


# ---- folders and their digests -----------------------------------------------------------------------------------


def test_the_digest_changes_with_every_file_that_can_run_and_with_no_data(folder: Path) -> None:
    digests = {TaskFolder(folder).digest}
    for name in ("own.py", "own.yaml", "template", "sub/other.py", "library.so"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"# {name}")
        digests.add(TaskFolder(folder).digest)
    (folder / "own.py").rename(folder / "renamed.py")
    digests.add(TaskFolder(folder).digest)
    assert len(digests) == 7
    for name in ("choice.jsonl", "README.md", ".hidden.py"):
        (folder / name).write_text("changed")
    assert TaskFolder(folder).digest in digests


def test_links_and_pipes_of_a_folder_do_no_harm(folder: Path) -> None:
    (folder / "nothing.yaml").symlink_to(folder / "missing")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.yaml")
    assert {file.path.name for file in TaskFolder(folder).tasks} >= {"choice.yaml", "own.yaml"}


def test_a_folder_of_too_many_files_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_folder, "_MOST_FILES", 3)
    with pytest.raises(WinaError, match=r"more than 3 files .* choose the folder that holds only the task files"):
        TaskFolder(folder)


def test_lm_evals_metrics_are_the_known_ones() -> None:
    assert set(METRICS) == set(metric_registry)


# ---- consent -----------------------------------------------------------------------------------------------------


def test_consent_holds_for_one_folder_at_one_content(folder: Path) -> None:
    assert requested_code(runs(folder, "tiny_choice", "tiny_generate")) == ()
    codes = requested_code(runs(folder, "own"))
    assert [(code.folder, code.requests) for code in codes] == [
        (str(folder), (("own.yaml", "process_results: !function own.score"),))
    ]
    assert not_allowed(codes, allowed_code()) == codes
    allow(codes)
    assert task_code(runs(folder, "own")) == allowed_code() == consent(folder)
    file = config_folder() / "trusted-task-code.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (folder / "own.py").write_text("import os\n")
    with pytest.raises(WinaError, match="not consented to"):
        task_code(runs(folder, "own"))
    copied = folder.with_name("copy")
    folder.rename(copied)
    with pytest.raises(WinaError, match="not consented to"):
        task_code(runs(copied, "own"))


@pytest.mark.parametrize("content", ["[]", '{"folders": {"/x": 3}}'])
def test_a_damaged_file_of_consents_gives_none(folder: Path, content: str) -> None:
    (config_folder() / "trusted-task-code.json").write_text(content)
    assert allowed_code() == {}
    allow(requested_code(runs(folder, "own")))
    assert allowed_code() == consent(folder)


def test_the_code_of_members_included_files_and_replaced_stock_tasks_is_found(folder: Path) -> None:
    (folder / "group.yaml").write_text("group: all\ntask: [{group: inner, task: [own]}]\n")
    (folder / "including.yaml").write_text("include: own.yaml\ntask: including\n")
    for name in ("all", "including", "mmlu"):  # of which it may replace a member
        (code,) = requested_code(runs(folder, name))
        assert code.digest == TaskFolder(folder).digest
    (code,) = requested_code(runs(folder, "including"))
    assert "!function own.score" in code.refusal()


def test_a_refusal_has_no_terminal_escapes(tmp_path: Path) -> None:
    folder = tmp_path / "\x1b]0;evil\x07"
    folder.mkdir()
    (folder / "\x1b[2J.yaml").write_text(CHOICE + 'use_prompt: "a\\e[2J"\n')
    (code,) = requested_code(runs(folder, "tiny_choice"))
    assert code.refusal().isprintable()


# ---- the engine --------------------------------------------------------------------------------------------------


def test_the_engine_runs_the_code_that_was_allowed_and_no_other(folder: Path) -> None:
    (task,) = load_task("own", [str(folder)], task_code=consent(folder))["tasks"].values()
    assert task.process_results({}, []) == {"surprise": 1.0}
    before = consent(folder)
    (folder / "own.py").write_text("def score(doc, results):\n    return {'surprise': 2.0}\n")
    with pytest.raises(WinaError, match="not consented to"):
        load_task("own", [str(folder)], task_code=before)
    (task,) = load_task("own", [str(folder)], task_code=consent(folder))["tasks"].values()
    assert task.process_results({}, []) == {"surprise": 2.0}


def test_nothing_is_built_if_one_of_the_tasks_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_stock_paths", dict)
    (folder / "first.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\ndef docs(d):\n    return d\n")
    (folder / "first.yaml").write_text(CHOICE.replace("tiny_choice", "first") + "process_docs: !function first.docs\n")
    (folder / "last.yaml").write_text("group: last\ntask: [{task: inlined, dataset_path: json, unsafe_code: true}]\n")
    spec = EvaluationSpec(tasks=("first", "last"), task_folders=(str(folder),), fidelity=None)
    with pytest.raises(WinaError, match='"last" runs programs that the model writes'):
        check_tasks(spec, task_code=consent(folder))
    assert not (tmp_path / "canary").exists()


def test_a_script_in_the_current_folder_does_not_run_as_a_metric(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rouge").mkdir()
    (tmp_path / "rouge" / "rouge.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WinaError, match=r"rouge/rouge\.py, which would run as a metric; start in another folder"):
        load_task("tiny_choice", [str(folder)])


# ---- the command line --------------------------------------------------------------------------------------------


def test_the_command_line_asks_for_the_flag_and_takes_it_once(folder: Path, wina: Wina, tmp_path: Path) -> None:
    words = ("--model", "demo", "--method", "dense", "--no-fidelity", "--limit", 1, "--tasks", "own")
    refused = wina.fails(1, "eval", *words, "--include-path", folder)
    for part in (str(folder), "own.yaml: process_results: !function own.score", "own.py", "option trust-task-code"):
        assert part in refused
    assert consent(folder)[str(folder)][:16] in refused
    assert "own" in wina.succeeds("eval", *words, "--include-path", folder, "--trust-task-code")
    assert allowed_code() == {}
    evaluation = EvaluationSpec(tasks=("own",), task_folders=(str(folder),), fidelity=None, limit=2)
    study = StudySpec(name="own", models=(DEMO,), configurations=(Configuration(),), evaluation=evaluation)
    save_study_file(study, tmp_path / "own.toml")
    assert "not consented to" in wina.fails(1, "study", "run", tmp_path / "own.toml")
