"""Numbers are those of stock lm-eval to the last digit, for every output type: those of its own model class around a
dense or gated model, and at night those of its command line on the same folder."""

from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from tests.end_to_end.stock_scores import (
    Results,
    as_stock,
    numbers,
    our_scores,
    read_tasks,
    result_file,
    run_stock,
    stored,
    task_commands,
)
from tests.wina_core.compute.evaluation.task_files import consent, write_tasks
from tests.wina_core.tiny import tiny_folder, tiny_loaded
from wina_core.compute.evaluation.harness import evaluate_task
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate, save_rotated
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.jobs import ExportModelJob
from wina_core.specs import (
    CalibrationSpec,
    DType,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity
from wina_core.studies.published import COMMONSENSE

DEMO = Path(__file__).parents[2] / "resources" / "demo"
GROUPS = {
    "demo_types": ("demo_choice", "demo_ppl", "tiny_likelihood", "tiny_generate"),
    "tiny_types": ("tiny_choice", "tiny_rolling", "tiny_likelihood", "tiny_generate"),
}
"""A task of each output type: multiple_choice, loglikelihood_rolling, loglikelihood, generate_until. They are asked for
as a group, since lm-eval makes batches of everything that it is asked for at once, and batches decide the rounding."""
LIMIT, BATCH = 3, 2
ROTATION = RotationSpec(text=TextSpec(tokens=512, sequence=128))
DENSE = ModelSource(location="demo", dtype="float32", device="cpu")
SPARSE: dict[str, tuple[DType, MethodSpec]] = {
    "float32": ("float32", MethodSpec(name="wina", selection="threshold")),
    "bfloat16": ("bfloat16", MethodSpec(name="wina")),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The task files of all, for a program that searches one folder."""
    path = write_tasks(tmp_path_factory.mktemp("tasks"))
    for file in (DEMO / "tasks").glob("*.yaml"):
        (path / file.name).write_bytes(file.read_bytes())
    for name, tasks in GROUPS.items():
        (path / f"{name}.yaml").write_text(f"group: {name}\ntask: [{', '.join(tasks)}]\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the paper's tasks on the shipped data."""
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def ours_and_stock(
    folder: Path, local: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Results, Results]]:
    """Our numbers of the demo model and of sparse models made of it, and lm-eval's of the same folders."""
    place, session = tmp_path_factory.mktemp("folders"), Session()
    models = {"dense": f"{DEMO / 'model'},dtype=float32"}
    ours = {"dense": measured(RunSpec(model=DENSE, evaluation=evaluation(folder, "demo_types")), folder, session)}
    for name, (dtype, method) in SPARSE.items():
        spec = RunSpec(
            model=DENSE.model_copy(update={"dtype": dtype}),
            rotation=ROTATION,
            method=method,
            calibration=CalibrationSpec(text=TextSpec(tokens=512)) if method.needs_calibration else None,
            plan=UniformSparsity(sparsity=0.5),
            evaluation=evaluation(folder, "demo_types"),
        )
        ours[name] = measured(spec, folder, session)
        run_job(ExportModelJob(spec=spec, folder=str(place / name)), session, lambda _: None, NullReporter())
        models[name] = f"{place / name},softmax_dtype=float32"
    further = task_commands(DEMO / "model", DEMO / "data", COMMONSENSE, LIMIT, BATCH, local)
    stock = stock_numbers(models, folder, tmp_path_factory.mktemp("stock"), further)
    return {name: (ours[name], stock[name]) for name in models}


def measured(spec: RunSpec, folder: Path, session: Session) -> Results:
    """Return the numbers of a run that is computed for real."""
    return as_stock(metric for unit in stored(spec, session, consent(folder)) for metric in unit.metrics)


def stock_numbers(models: dict[str, str], folder: Path, output: Path, further: list[list[str]]) -> dict[str, Results]:
    """Return what lm-eval's command line writes about "demo_types" for each model: for the dense one by itself, before
    anything of the workbench is imported; for the others through `python -m wina_core.hf`. The `further` command lines
    run before it is."""
    commands = [*further]
    for name, model in models.items():
        program = ["lm_eval"] if name == "dense" else ["wina_core.hf", "lm_eval"]
        options = f"--model hf --device cpu --tasks demo_types --limit {LIMIT} --batch_size {BATCH}".split()
        places = ["--include_path", str(folder), "--output_path", str(output / name)]
        commands.append([*program, "run", *options, *places, "--model_args", f"pretrained={model}"])
    run_stock(commands, folder)
    return {name: numbers(result_file(output / name), GROUPS["demo_types"]) for name in models}


def evaluation(folder: Path, group: str) -> EvaluationSpec:
    return EvaluationSpec(tasks=(group,), task_folders=(str(folder),), fidelity=None, limit=LIMIT, batch_size=BATCH)


@pytest.mark.nightly  # by day its model class around small models, below
def test_dense_results_are_the_stock_command_lines(ours_and_stock: dict[str, tuple[Results, Results]]) -> None:
    ours, stock = ours_and_stock["dense"]
    assert ours == stock


@pytest.mark.nightly
def test_dense_results_of_the_papers_tasks_are_the_stock_command_lines(
    ours_and_stock: dict[str, tuple[Results, Results]], local: Path
) -> None:
    """On the shipped data, log-likelihoods included; `tests.end_to_end.stock_scores` compares any model on any data."""
    assert ours_and_stock  # its command lines include those of the tasks
    assert our_scores(DEMO / "model", DEMO / "data", COMMONSENSE, LIMIT, BATCH) == read_tasks(COMMONSENSE, local)


@pytest.mark.nightly
@pytest.mark.parametrize("name", SPARSE)
def test_an_exported_sparse_model_has_its_stored_numbers_in_stock_lm_eval(
    ours_and_stock: dict[str, tuple[Results, Results]], name: str
) -> None:
    ours, stock = ours_and_stock[name]
    assert ours == stock


@pytest.mark.parametrize(("model", "method"), [("tiny", "dense"), ("tiny", "wina"), ("exported", "rsparse")])
def test_results_are_those_of_stock_evaluation_around_the_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, method: str
) -> None:
    loaded = exported(tmp_path) if model == "exported" else tiny_loaded()
    monkeypatch.setenv("DISABLE_MULTIPROC", "1")
    monkeypatch.chdir(folder)
    with attach(loaded, MethodSpec(name=method), UniformSparsity(sparsity=0.5)) as gates:
        found: Any = simple_evaluate(
            HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=BATCH),
            tasks=["tiny_types"],
            task_manager=TaskManager(include_defaults=False, include_path=str(folder)),
            limit=LIMIT,
        )
        monkeypatch.chdir("/")
        records = evaluate_task(loaded, gates, evaluation(folder, "tiny_types"), "tiny_types", NullReporter())
        assert method == "dense" or gates.gated_sparsity > 0.4
    assert as_stock(records) == numbers(found, GROUPS["tiny_types"])


def exported(folder: Path) -> LoadedModel:
    """A rotated model that was saved as a folder."""
    rotated = load_model(ModelSource(location=str(tiny_folder(folder / "tiny", "mistral"))), NullReporter())
    rotate(rotated, ROTATION, NullReporter())
    save_rotated(rotated, folder / "exported", None)
    return load_model(ModelSource(location=str(folder / "exported"), device="cpu"), NullReporter())
