"""Numbers are those of stock lm-eval to the last digit, for every output type: dense ones those of its command line on
the same folder, sparse ones those of its own model class around the gated model."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from tests.wina_core.compute.evaluation.task_files import consent, write_tasks
from tests.wina_core.tiny import tiny_folder
from wina_core.compute.evaluation.harness import evaluate_task
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate, save_rotated
from wina_core.compute.session.model_session import Session
from wina_core.engine.protocol import EvaluateJob, Event, ExportModelJob, Partial, PendingRun, RunFailed
from wina_core.engine.server.run_job import run_job
from wina_core.records import MetricRecord
from wina_core.specs import EvaluationSpec, MethodSpec, ModelSource, RotationSpec, RunSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

DEMO = Path(__file__).parents[2] / "resources" / "demo"
GROUPS = {
    "demo_types": ("demo_choice", "demo_ppl", "tiny_likelihood", "tiny_generate"),
    "tiny_types": ("tiny_choice", "tiny_rolling", "tiny_likelihood", "tiny_generate"),
}
"""A task of each output type: multiple_choice, loglikelihood_rolling, loglikelihood, generate_until. They are asked for
as a group, since lm-eval makes batches of everything that it is asked for at once, and batches decide the rounding."""
COMMAND_LINE = """
from functools import partialmethod
from lm_eval.tasks import TaskManager
TaskManager.__init__ = partialmethod(TaskManager.__init__, include_defaults=False)
from lm_eval.__main__ import cli_evaluate
cli_evaluate()
"""
"""lm-eval's command line, without reading the 13,000 task files that it ships: they take half of its time."""
LIMIT, BATCH = 4, 2
ROTATION = RotationSpec(text=TextSpec(tokens=512, sequence=128))
DENSE = ModelSource(location="demo", dtype="float32", device="cpu")

Results = dict[str, dict[str, float]]


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
def stock_command_line(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What `lm_eval --model hf` writes about the demo model."""
    arguments = [
        "-c",
        COMMAND_LINE,
        "run",
        "--model",
        "hf",
        "--model_args",
        f"pretrained={DEMO / 'model'},dtype=float32",
    ]
    return stock_numbers(arguments, folder, tmp_path_factory.mktemp("stock"))


def stock_numbers(arguments: list[str], folder: Path, output: Path) -> Results:
    """What Python writes about "demo_types" with these arguments, the beginning of lm-eval's command line."""
    command = [
        *(sys.executable, *arguments, "--device", "cpu", "--tasks", "demo_types", "--include_path", folder),
        *("--limit", LIMIT, "--batch_size", BATCH, "--output_path", output),
    ]
    paths = map(str, (DEMO.parents[1], DEMO.parents[1] / "kernels"))
    python_path = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(output / "hub"), "PYTHONPATH": python_path}
    subprocess.run([str(word) for word in command], check=True, cwd=folder, env={**os.environ, **environment})
    (file,) = output.rglob("results_*.json")
    return numbers(json.loads(file.read_text()), "demo_types")


def numbers(stock: dict[str, Any], group: str) -> Results:
    """lm-eval's metrics and their standard errors, without the filter "none"."""
    return {
        task: {
            name.removesuffix(",none"): value
            for name, value in stock["results"][task].items()
            if "," in name and isinstance(value, (int, float))
        }
        for task in GROUPS[group]
    }


def as_stock(records: tuple[MetricRecord, ...]) -> Results:
    """Our records in the same form."""
    results: Results = {}
    for record in records:
        own = results.setdefault(record.task, {})
        own[record.metric] = record.value
        if record.stderr is not None:
            metric, comma, filter_name = record.metric.partition(",")
            own[f"{metric}_stderr{comma}{filter_name}"] = record.stderr
    return results


def evaluation(folder: Path, group: str) -> EvaluationSpec:
    return EvaluationSpec(tasks=(group,), task_folders=(str(folder),), fidelity=None, limit=LIMIT, batch_size=BATCH)


def test_dense_results_are_the_stock_command_lines(folder: Path, stock_command_line: Results) -> None:
    spec = RunSpec(model=DENSE, evaluation=evaluation(folder, "demo_types"))
    events: list[Event] = []
    run_job(
        EvaluateJob(runs=(PendingRun(spec=spec, units=spec.evaluation.units),), task_code=consent(folder)),
        Session(),
        events.append,
        NullReporter(),
    )
    assert not [event.error for event in events if isinstance(event, RunFailed)]
    ours = as_stock(tuple(metric for event in events if isinstance(event, Partial) for metric in event.unit.metrics))
    assert ours == stock_command_line


def test_an_exported_sparse_model_has_its_stored_numbers_in_stock_lm_eval(folder: Path, tmp_path: Path) -> None:
    spec = RunSpec(
        model=DENSE,
        rotation=ROTATION,
        method=MethodSpec(name="wina"),
        plan=UniformSparsity(sparsity=0.5),
        evaluation=evaluation(folder, "demo_types"),
    )
    session, events, sparse = Session(), list[Event](), str(tmp_path / "sparse")
    for job in (
        EvaluateJob(runs=(PendingRun(spec=spec, units=spec.evaluation.units),), task_code=consent(folder)),
        ExportModelJob(spec=spec, folder=sparse),
    ):
        run_job(job, session, events.append, NullReporter())
    assert not [event.error for event in events if isinstance(event, RunFailed)]
    stored = as_stock(tuple(metric for event in events if isinstance(event, Partial) for metric in event.unit.metrics))
    loading = "from wina_core.hf import KERNELS\nKERNELS['decoding'] = False\n"  # as `python -m wina_core.hf` does
    command = ["-c", loading + COMMAND_LINE, "run", "--model", "hf", "--model_args", f"pretrained={sparse}"]
    assert stock_numbers(command, folder, tmp_path / "out") == stored


@pytest.mark.parametrize(("model", "method"), [("demo", "wina"), ("exported", "rsparse")])
def test_sparse_results_are_those_of_stock_evaluation_around_the_gated_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, method: str
) -> None:
    loaded = load_model(DENSE, NullReporter()) if model == "demo" else exported(tmp_path)
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
        assert gates.gated_sparsity > 0.4
    assert as_stock(records) == numbers(found, "tiny_types")


def exported(folder: Path) -> LoadedModel:
    """A rotated model that was saved as a folder."""
    rotated = load_model(ModelSource(location=str(tiny_folder(folder / "tiny", "mistral"))), NullReporter())
    rotate(rotated, ROTATION, NullReporter())
    save_rotated(rotated, folder / "exported", None)
    return load_model(ModelSource(location=str(folder / "exported"), device="cpu"), NullReporter())
