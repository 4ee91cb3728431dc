"""The stock definitions of the paper's tasks run on local data of the same columns, so that a change in lm-eval's tasks
shows here."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lm_eval.tasks
import pytest

from tests.stock_tasks import STOCK_FILES
from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.evaluation import tasks
from wina_core.compute.evaluation.harness import evaluate_task
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter
from wina_core.files.paths import resources_folder
from wina_core.records import MetricRecord
from wina_core.specs import EvaluationSpec, TaskSpec

STOCK = Path(lm_eval.tasks.__file__).parent


@pytest.fixture(autouse=True)
def known_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names' files are given, since reading all names takes long."""
    monkeypatch.setattr(tasks, "_stock_paths", lambda: STOCK_FILES)
    monkeypatch.setattr(tasks, "_stock_index", lambda: pytest.fail("read all stock tasks"))


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    """A tiny model whose window holds the longest generation, 1024 tokens, and a prompt."""
    model = tiny_loaded(layers=1)
    model.model.config.max_position_embeddings = 8192
    return model


def measured(loaded: LoadedModel, task: str | TaskSpec, limit: int = 2, **fields) -> dict[str, dict[str, MetricRecord]]:
    """The metrics of each task or group."""
    spec = EvaluationSpec(tasks=(task,), data_folder="demo", limit=limit, fidelity=None, **fields)
    (name,) = spec.task_names
    metrics: dict[str, dict[str, MetricRecord]] = {}
    for record in evaluate_task(loaded, None, spec, name, NullReporter(), run_model_code=name == "humaneval"):
        metrics.setdefault(record.task, {})[record.metric] = record
    return metrics


def first(task: str) -> dict[str, str]:
    """The first document of a task's local data."""
    with (resources_folder() / "demo" / "data" / task / "test.jsonl").open(encoding="utf-8") as file:
        return json.loads(file.readline())


@contextmanager
def answering(loaded: LoadedModel, text: str) -> Iterator[None]:
    """Within: the model answers every prompt with this text."""
    tokens = [*loaded.tokenizer(text)["input_ids"], loaded.tokenizer.eos_token_id]
    left = list(tokens)

    def choose(_module, _arguments, states, output) -> None:
        if states["input_ids"].shape[1] > 1:  # a prompt
            left[:] = tokens
        output.logits[:, -1] = -1e4
        output.logits[:, -1, left.pop(0)] = 0.0

    handle = loaded.model.register_forward_hook(choose, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def test_gsm8k_draws_its_examples_from_the_training_split(loaded):
    with answering(loaded, f" That is so.\n{first('gsm8k')['answer'].splitlines()[-1]}"):
        (metrics,) = measured(loaded, "gsm8k", limit=1).values()
    for way in ("strict-match", "flexible-extract"):
        assert metrics[f"exact_match,{way}"].value == 1.0
        assert metrics[f"exact_match,{way}"].num_fewshot == 5


@pytest.mark.parametrize(
    ("answer", "limits", "passed"),
    [("canonical_solution", {}, 1.0), ("prompt", {}, 0.0), ("canonical_solution", {"max_gen_toks": 8}, 0.0)],
    ids=["solution", "no solution", "solution cut off in the middle"],
)
def test_humaneval_runs_what_the_model_writes_in_the_sandbox(loaded, answer, limits, passed):
    with answering(loaded, first("humaneval")[answer]):
        ((task, metrics),) = measured(loaded, TaskSpec(name="humaneval", **limits), limit=1).items()
    assert task == "humaneval"
    assert metrics["pass@1,create_test"].value == passed
