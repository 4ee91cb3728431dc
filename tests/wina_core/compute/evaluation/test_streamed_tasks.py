"""lm-eval's tasks on models that memory does not hold: the same numbers, and all batches pass a layer together."""

import sys

import pytest

from tests.wina_core.compute.evaluation.task_files import spec_of, write_tasks
from tests.wina_core.tiny import tiny_folder
from wina_core.compute.evaluation.harness import evaluate_task
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.reporter import NullReporter
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.records import MetricRecord, SampleRecord
from wina_core.specs import EvaluationSpec, MethodSpec, ModelSource
from wina_core.specs.plans import UniformSparsity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux alone")


@pytest.fixture
def spec(tmp_path):
    return spec_of(write_tasks(tmp_path), "tiny_choice", "tiny_rolling", "tiny_generate", batch_size=2)


@pytest.fixture
def source(tmp_path):
    return ModelSource(location=str(tiny_folder(tmp_path / "model")))


def measured(
    loaded: LoadedModel, spec: EvaluationSpec, task: str, sparsity: float
) -> tuple[tuple[MetricRecord, ...], list[SampleRecord], list[tuple[int, int]]]:
    """Metrics, the scores of every document, and the counts of the gates."""
    samples: list[SampleRecord] = []
    with attach(loaded, MethodSpec(name="wina"), UniformSparsity(sparsity=sparsity)) as gates:
        metrics = evaluate_task(loaded, gates, spec, task, NullReporter(), samples)
        counts = [group.counted() for forward in gates.forwards for group in forward.groups]
    return metrics, samples, counts


@pytest.mark.parametrize("task", ["tiny_choice", "tiny_rolling", "tiny_generate"])
def test_scores_and_counts_are_those_of_a_model_in_memory(spec, source, task, monkeypatch):
    expected = measured(load_model(source, NullReporter()), spec, task, 0.5)
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    assert measured(load_model(source, NullReporter()), spec, task, 0.5) == expected


def test_all_batches_pass_a_layer_before_the_next(spec, source, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    loaded = load_model(source, NullReporter())
    called: list[int] = []
    for layer in loaded.view.layers:
        mlp = layer.mlp[0]  # which nothing replaces on the way in and out
        mlp.register_forward_hook(lambda *_, index=layer.index: called.append(index))
    evaluate_task(loaded, None, spec, "tiny_choice", NullReporter())
    assert called == sorted(called)
    assert len(called) > 2 * len(loaded.view.layers), "several batches"
