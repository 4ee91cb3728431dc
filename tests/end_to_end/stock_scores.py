"""Scores of a dense model on local data, beside those of stock lm-eval's command line on the same files:

    python -m tests.end_to_end.stock_scores --model FOLDER --data FOLDER --limit 8 --batch-size 1

One line for each task and metric has every digit of both, one line for each task counts equal log-likelihoods, and the
last one is the verdict.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "app"), str(ROOT / "kernels")]  # what pytest adds from pyproject.toml

from tests.stock_tasks import STOCK_FILES  # noqa: E402
from wina_core.compute.reporter import NullReporter  # noqa: E402
from wina_core.compute.session.model_session import Session  # noqa: E402
from wina_core.engine.server.run_job import run_job  # noqa: E402
from wina_core.jobs import EvaluateJob, Event, Partial, PendingRun, RunFailed  # noqa: E402
from wina_core.records import MetricRecord, UnitRecord  # noqa: E402
from wina_core.specs import EvaluationSpec, ModelSource, RunSpec  # noqa: E402
from wina_core.studies.published import COMMONSENSE  # noqa: E402

TASKS = (*COMMONSENSE, "lambada_openai")
"""The paper's eight commonsense tasks, and LAMBADA."""
SPLITS = {"training": "train", "validation": "validation", "test": "test"}
"""lm-eval's name of a split, and that of its file."""
PROGRAM = """
import json, runpy, sys
from functools import partialmethod
from lm_eval.tasks import TaskManager
TaskManager.__init__ = partialmethod(TaskManager.__init__, include_defaults=False)
for command in json.load(sys.stdin):
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)
"""
"""`python -m` of some command lines, one after the other, without reading the 13,000 task files that lm-eval ships."""

Results = dict[str, dict[str, float]]
"""{task: {metric: value}}, with standard errors as metrics."""
Answers = dict[str, list[list[float]]]
"""{task: the log-likelihoods of each document's requests, in the data's order}"""


def stored(
    spec: RunSpec, session: Session, consents: Mapping[str, str] = MappingProxyType({}), *, samples: bool = False
) -> tuple[UnitRecord, ...]:
    """Return the units that a run would store; `consents` are those to run the code of task folders."""
    events: list[Event] = []
    runs = (PendingRun(spec=spec, units=spec.evaluation.units),)
    run_job(EvaluateJob(runs=runs, task_code=dict(consents), samples=samples), session, events.append, NullReporter())
    assert not [event.error for event in events if isinstance(event, RunFailed)]
    return tuple(event.unit for event in events if isinstance(event, Partial))


def as_stock(records: Iterable[MetricRecord]) -> Results:
    """Return our records in lm-eval's form."""
    results: Results = {}
    for record in records:
        own = results.setdefault(record.task, {})
        own[record.metric] = record.value
        if record.stderr is not None:
            metric, comma, filter_name = record.metric.partition(",")
            own[f"{metric}_stderr{comma}{filter_name}"] = record.stderr
    return results


def numbers(stock: Mapping[str, Any], tasks: Sequence[str]) -> Results:
    """Return lm-eval's metrics and their standard errors, without the filter "none"."""
    return {
        task: {
            name.removesuffix(",none"): value
            for name, value in stock["results"][task].items()
            if "," in name and isinstance(value, (int, float))
        }
        for task in tasks
    }


def run_stock(commands: Sequence[Sequence[str]], work: Path) -> None:
    """Run command lines of lm-eval in one process, in the folder `work`, without a network."""
    python_path = os.pathsep.join([str(ROOT), str(ROOT / "kernels"), os.environ.get("PYTHONPATH", "")])
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(work / "hub"), "PYTHONPATH": python_path}
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(commands),
        text=True,
        check=True,
        cwd=work,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


def result_file(output: Path) -> Mapping[str, Any]:
    """Return the one file of results that lm-eval wrote in a folder."""
    (file,) = output.rglob("results_*.json")
    return json.loads(file.read_text(encoding="utf-8"))


def task_commands(
    model: Path, data: Path, tasks: Sequence[str], limit: int, batch_size: int, work: Path
) -> list[list[str]]:
    """Return a command line for each task, whose files they are written for in `work`.

    lm-eval makes batches of all that it is asked for at once, and batches decide the rounding.
    """
    (work / "tasks").mkdir()
    commands = []
    for task in tasks:
        (work / "tasks" / f"{task}.yaml").write_text(local_task(task, data), encoding="utf-8")
        options = f"--model hf --device cpu --tasks {task} --limit {limit} --batch_size {batch_size}".split()
        places = ["--include_path", str(work / "tasks"), "--output_path", str(work / "output" / task)]
        arguments = ["--log_samples", "--model_args", f"pretrained={model},dtype=float32"]
        commands.append(["lm_eval", "run", *options, *places, *arguments])
    return commands


def read_tasks(tasks: Sequence[str], work: Path) -> tuple[Results, Answers]:
    """Return the numbers and log-likelihoods that `task_commands` left in `work`."""
    results, answers = {}, {}
    for task in tasks:
        results |= numbers(result_file(work / "output" / task), [task])
        (file,) = (work / "output" / task).rglob("samples_*.jsonl")
        documents = sorted(map(json.loads, file.read_text(encoding="utf-8").splitlines()), key=itemgetter("doc_id"))
        answers[task] = [[float(answer[0][0]) for answer in document["resps"]] for document in documents]
    return results, answers


def local_task(task: str, data: Path) -> str:
    """Return a task file that is the stock one, but reads local files, and no split that has none."""
    stock = Path(find_spec("lm_eval").submodule_search_locations[0], "tasks", STOCK_FILES[task])  # type: ignore[index,union-attr]
    folder = next(path for path in (data / task, data / task.partition("_")[0]) if path.is_dir())
    files = {file.stem: str(file) for file in sorted(folder.glob("*.jsonl"))}
    splits = {f"{name}_split": None for name, split in SPLITS.items() if split not in files}
    content = {"include": str(stock), "task": task, "dataset_path": "json", "dataset_name": None}
    return json.dumps({**content, "dataset_kwargs": {"data_files": files}, **splits})  # which is YAML, too


def our_scores(model: Path, data: Path, tasks: Sequence[str], limit: int, batch_size: int) -> tuple[Results, Answers]:
    """Return what the workbench stores about each task of a dense model in float32."""
    session = Session()
    source = ModelSource(location=str(model), dtype="float32", device="cpu")
    given = EvaluationSpec(data_folder=str(data), fidelity=None, limit=limit, batch_size=batch_size)
    runs = RunSpec(model=source, evaluation=given.model_copy(update={"tasks": tuple(tasks)}))
    units = stored(runs, session, samples=True)
    answers = {
        task: [json.loads(document.response) for unit in units for document in unit.samples if document.task == task]
        for task in tasks
    }
    return as_stock(metric for unit in units for metric in unit.metrics), answers


def main() -> None:
    """Print both numbers of each task and metric; exit with 1 where any two differ."""
    parser = argparse.ArgumentParser(description="Compare dense scores with stock lm-eval's, digit for digit.")
    parser.add_argument("--model", type=Path, required=True, help="a model's folder")
    parser.add_argument("--data", type=Path, required=True, help="a data folder, with a folder for each task")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--limit", type=int, default=8, help="documents of each task")
    parser.add_argument("--batch-size", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        asked = given.model.resolve(), given.data.resolve(), given.tasks, given.limit, given.batch_size
        ours, our_answers = our_scores(*asked)
        run_stock(task_commands(*asked, Path(work)), Path(work))
        stock, stock_answers = read_tasks(given.tasks, Path(work))
    for task, values in stock.items():
        for metric, value in values.items():
            mark = "" if ours[task].get(metric) == value else "   DIFFERS"
            print(f"{task:16} {metric:18} {ours[task].get(metric)!r:22} {value!r:22}{mark}")
        count = sum(map(len, stock_answers[task]))
        pairs = zip(chain(*our_answers[task]), chain(*stock_answers[task]), strict=True)
        print(f"{task:16} log-likelihoods: {sum(left == right for left, right in pairs)} of {count} equal")
    equal = (ours, our_answers) == (stock, stock_answers)
    print("all equal" if equal else "not equal")
    sys.exit(not equal)


if __name__ == "__main__":
    main()
