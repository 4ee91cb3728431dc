"""Fidelity to dense: the metrics are what their formulas say."""

import math

import pytest
import torch

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.compute.evaluation import measure_fidelity
from wina_core.compute.gating import attach
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.errors import Cancelled, WinaError
from wina_core.records import METRIC_UNITS
from wina_core.specs import MethodSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

WINA = MethodSpec(name="wina")
HALF = UniformSparsity(sparsity=0.5)


@pytest.fixture
def text(tmp_path) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path), tokens=384, sequence=64)


def measured(loaded, gates, text, batch_size=2) -> dict:
    records = measure_fidelity(loaded, gates, text, batch_size, NullReporter())
    assert {record.task for record in records} == {"fidelity"}
    return {record.metric: record for record in records}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_metrics_equal_the_naive_formulas_in_float64(text, dtype, tolerance):
    loaded = tiny_loaded(dtype=dtype)
    rows = read_tokens(text, loaded.tokenizer)
    with torch.no_grad():
        dense = loaded.model(rows).logits.double()
        with attach(loaded, WINA, HALF) as gates:
            sparse = loaded.model(rows).logits.double()
            metrics = measured(loaded, gates, text)
    p, q = dense.softmax(-1), sparse.softmax(-1)
    kl = (p * (p / q).log()).sum(-1)
    agree = float((p.argmax(-1) == q.argmax(-1)).double().mean())
    mean = float(-q[:, :-1].gather(-1, rows[:, 1:, None]).log().mean())
    stderr = float(kl.mean(1).std()) / math.sqrt(6)
    expected = {
        "kl": (float(kl.mean()), stderr, 384, False),
        "perplexity": (math.exp(mean), None, 378, False),
        "bits_per_byte": (mean / math.log(2), None, 378, False),  # the tiny tokenizer has one token a byte
        "logits_deviation": (float((sparse - dense).norm() / dense.norm()), None, 384, False),
        "top1_agreement": (agree, None, 384, True),
    }
    assert list(metrics) == list(expected)
    assert metrics.keys() <= METRIC_UNITS.keys()
    for metric, (value, stderr, tokens, better) in expected.items():
        record = metrics[metric]
        assert record.value == pytest.approx(value, rel=tolerance), metric
        assert (record.n, record.higher_is_better) == (tokens, better)
        if stderr is not None:
            assert record.stderr == pytest.approx(stderr, rel=max(tolerance, 1e-6))
    assert metrics["kl"].value > 0.01


def test_without_gates_nothing_deviates(text):
    loaded = tiny_loaded()
    metrics = measured(loaded, None, text)
    assert [metrics[name].value for name in ("kl", "logits_deviation", "top1_agreement")] == [0.0, 0.0, 1.0]
    passes = []
    hook = loaded.model.register_forward_hook(lambda *_: passes.append(1))
    with attach(loaded, MethodSpec(name="dense"), HALF) as gates:
        assert measured(loaded, gates, text) == metrics
    assert len(passes) == 6, "each row once"
    hook.remove()
    with attach(loaded, WINA, UniformSparsity(sparsity=0.0)) as gates:
        assert measured(loaded, gates, text)["perplexity"].value == pytest.approx(metrics["perplexity"].value, rel=1e-6)


def test_logits_that_are_not_numbers_are_an_error(text):
    loaded = tiny_loaded()
    loaded.view.layers[0].projections["o"].weight[0, 0] = torch.nan
    with pytest.raises(WinaError, match="logits are not numbers on the fidelity text"):
        measured(loaded, None, text)


def test_progress_and_cancel(text):
    loaded = tiny_loaded()
    reporter = RecordingReporter()
    measure_fidelity(loaded, None, text, 2, reporter)
    done = [call[0] for call in reporter.calls]
    assert done == sorted(done), "one scale for the layers and the scores after them"
    assert done[-1] == 384
    assert {call[1:3] for call in reporter.calls} == {(384, "tokens")}
    assert [call[3] for call in reporter.calls[:3]] == [f"layer {layer} of 3" for layer in (1, 2, 3)]
    assert all(call[3].startswith("fidelity: KL ") for call in reporter.calls[3:])
    with pytest.raises(Cancelled):
        measure_fidelity(loaded, None, text, 2, RecordingReporter(reporter.checks - 1))


def test_rows_longer_than_the_models_window_are_refused(text):
    loaded = tiny_loaded(layers=1)
    loaded.model.config.max_position_embeddings = 63
    with pytest.raises(WinaError, match="has rows of 64 tokens, but the model's window has 63; choose shorter rows"):
        measured(loaded, None, text)
