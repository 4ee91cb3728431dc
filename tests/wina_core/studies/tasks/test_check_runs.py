"""Unknown tasks and metrics are refused before a model is loaded."""

from pathlib import Path

import pytest

from tests.wina_core.compute.evaluation.task_files import CHOICE, consent, write_tasks
from tests.wina_core.conftest import Wina
from wina_core.compute.evaluation.tasks import check_tasks
from wina_core.errors import WinaError
from wina_core.jobs import PendingRun
from wina_core.specs import Configuration, EvaluationSpec, ModelSource, RunSpec, TaskSpec, TextSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.studies.expand import save_study_file
from wina_core.studies.tasks.check_runs import check_names, check_runs
from wina_core.studies.tasks.index import TaskEntry, TaskIndex, save_index

DEMO = ModelSource(location="demo")
STOCK = ("hellaswag", "piqa", "gsm8k")


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def indexed(home: Path) -> None:  # noqa: ARG001 - the index lies in it
    """The index is there, of a few tasks."""
    save_index(TaskIndex(TaskEntry(name, "task", "multiple_choice", f"{name}.yaml") for name in STOCK))


def pending(*tasks: str | TaskSpec, units: tuple[str, ...] = (), **fields) -> list[PendingRun]:
    evaluation = EvaluationSpec(tasks=tasks, **fields)
    return [PendingRun(spec=RunSpec(model=DEMO, evaluation=evaluation), units=units or evaluation.units)]


def typo(folder: Path, *tasks: str | TaskSpec) -> Path:
    """A file of a study of these tasks."""
    evaluation = EvaluationSpec(tasks=tasks, fidelity=None, limit=2)
    study = StudySpec(name="typo", models=(DEMO,), configurations=(Configuration(),), evaluation=evaluation)
    save_study_file(study, folder / "typo.toml")
    return folder / "typo.toml"


# ---- names of tasks ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("indexed")
def test_an_unknown_task_is_refused_with_close_ones() -> None:
    check_names(pending("piqa", "gsm8k", "demo_choice", "demo_ppl"))
    with pytest.raises(WinaError, match=r'There is no task "helaswag"; did you mean hellaswag\?'):
        check_names(pending("piqa", "helaswag"))
    with pytest.raises(WinaError, match='no task "zzzz"; check its name, or add the folder of its task file'):
        check_names(pending("zzzz"))


def test_a_text_without_a_row_of_tokens_is_refused_where_it_is_read() -> None:
    short = pending("demo_choice", fidelity=TextSpec(source="demo:heldout", tokens=256))
    with pytest.raises(WinaError, match="256 tokens do not fill one row of 512; choose more tokens"):
        check_runs(short)
    check_runs([run.model_copy(update={"units": ("demo_choice",)}) for run in short])
    check_runs(pending("demo_choice", fidelity=TextSpec(source="demo:heldout", tokens=256, sequence=256)))


@pytest.mark.usefixtures("indexed")
def test_what_is_stored_already_or_in_ones_own_folders_is_not_looked_up(tmp_path: Path) -> None:
    check_names(pending("helaswag", "piqa", units=("piqa", "fidelity")))
    check_names(pending("tiny_choice", task_folders=(str(tmp_path),)))


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize("command", ["run", "estimate"])
def test_the_command_line_refuses_before_an_engine_is_there(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wina: Wina
) -> None:
    monkeypatch.setattr("wina_core.api.studies.run_recorded", lambda *_, **__: pytest.fail("a job was begun"))
    refused = wina.fails(1, "study", command, typo(tmp_path, "piqq"))
    assert refused == 'wina: There is no task "piqq"; did you mean piqa?'
    with Store() as store:
        assert store.studies() == []


# ---- metrics -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small tasks, among them one of two filters and one that is scored by a function of its own."""
    folder = write_tasks(tmp_path_factory.mktemp("tasks"))
    first = "filter: [{function: take_first}]"
    filters = f"filter_list: [{{name: strict, {first}}}, {{name: none, {first}}}]\n"
    generate = (folder / "generate.yaml").read_text()
    (folder / "filtered.yaml").write_text(generate.replace("tiny_generate", "tiny_filtered") + filters)
    (folder / "own.py").write_text("def score(doc, results):\n    return {'surprise': 1.0}\n")
    own = CHOICE.replace("tiny_choice", "tiny_own") + "process_results: !function own.score\n"
    (folder / "own.yaml").write_text(own)
    return folder


def test_a_metric_that_a_task_has_not_is_refused_before_it_is_computed(folder: Path) -> None:
    def check(task: str, metric: str) -> None:
        spec = EvaluationSpec(tasks=(task,), task_folders=(str(folder),))
        check_tasks(spec, metrics={task: metric}, task_code=consent(folder))

    with pytest.raises(WinaError, match='"tiny_choice" has no metric "f1"; it has acc, acc_norm: correct the study\'s'):
        check("tiny_choice", "f1")
    check("tiny_choice", "acc_norm")
    check("tiny_filtered", "exact_match,strict")
    check("tiny_own", "surprise")
    check("tiny_own", "f1")
