"""Fidelity to dense: the metrics are what their formulas say."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.analysis.comparison.compare_tasks import aggregate
from wina_core.compute.evaluation import measure_fidelity, measure_original
from wina_core.compute.evaluation.original import ReferenceFile, decode, encode, make_reference
from wina_core.compute.gating import attach
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.errors import Cancelled, WinaError
from wina_core.records import METRIC_UNITS, SampleRecord
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


# ---- fidelity to the original, from stored log-probabilities ---------------------------------------------------------


@given(
    st.integers(0, 10**6),
    st.sampled_from([2, 3, 10, 300, 20_000]),
    st.sampled_from([0.0, 0.1, 1.0, 4.0, 30.0]),
    st.sampled_from([0.0, 0.01, 0.3, 1.0, 5.0]),
    st.sampled_from([0.0, 12.0, 60.0]),
)
@settings(max_examples=100, deadline=None)
def test_the_codes_change_a_divergence_by_less_than_is_stated(seed, vocabulary, spread, change, peak):
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(vocabulary, generator=generator, dtype=torch.float64)
    logits[seed % vocabulary] += peak
    log_p = logits.log_softmax(-1)
    log_q = (logits + change * torch.randn(vocabulary, generator=generator, dtype=torch.float64)).log_softmax(-1)
    stored = decode(encode(log_p.float())).double()
    assert float(stored.exp().sum()) == pytest.approx(1.0, abs=1e-5)
    exact = float((log_p.exp() * (log_p - log_q)).sum())
    divergence = float((stored.exp() * (stored - log_q)).sum())
    assert abs(divergence - exact) <= max(1e-4, 3e-4 * exact)
    if spread:
        assert int(stored.argmax()) == int(log_p.argmax())


def test_metrics_of_the_original_equal_the_naive_formulas_in_float64(text, tmp_path):
    original, rotated = tiny_loaded(dtype=torch.float64), tiny_loaded(dtype=torch.float64)
    rows = read_tokens(text, original.tokenizer)
    file = tmp_path / "reference.safetensors"
    make_reference(original, rows, 2, NullReporter(), file)
    reference = ReferenceFile(file)
    assert torch.equal(reference.tokens, rows)
    samples: list[SampleRecord] = []
    with torch.no_grad(), attach(rotated, MethodSpec(name="wina"), HALF) as gates:
        dense = original.model(rows).logits.log_softmax(-1)
        sparse = rotated.model(rows).logits.log_softmax(-1)
        *records, read, held = measure_original(rotated, gates, reference, 2, NullReporter(), samples)
        assert gates.gated_sparsity == pytest.approx(0.5, abs=0.02)
    kl = (dense.exp() * (dense - sparse)).sum(-1)
    following = rows[:, 1:, None]
    p, q = (probabilities[:, :-1].gather(-1, following)[..., 0] for probabilities in (dense, sparse))
    change = q.exp() - p.exp()
    agreement = (dense.argmax(-1) == sparse.argmax(-1)).double()

    def over_rows(values: torch.Tensor) -> float:
        return float(values.mean(-1).std()) / math.sqrt(len(values))

    perplexity, ratio = float((-q.mean()).exp()), float((p - q).mean().exp())
    rms = float(change.square().mean().sqrt())
    quantiles = {"median": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "max": 1.0}
    expected = {
        "kl": (float(kl.mean()), over_rows(kl)),
        **{f"kl_{name}": (float(np.quantile(kl.numpy(), at)), None) for name, at in quantiles.items()},
        "delta_p": (float(change.mean()), over_rows(change)),
        "delta_p_rms": (rms, over_rows(change.square()) / rms / 2),
        "top1_agreement": (float(agreement.mean()), over_rows(agreement)),
        "perplexity": (perplexity, perplexity * over_rows(q)),
        "perplexity_original": (float((-p.mean()).exp()), float((-p.mean()).exp()) * over_rows(p)),
        "perplexity_ratio": (ratio, ratio * over_rows(p - q)),
    }
    assert [record.metric for record in records] == list(expected)
    assert (read.metric, held.metric) == ("bits_read", "bits_held")
    assert 0 < read.value < held.value
    assert expected.keys() <= METRIC_UNITS.keys()
    assert {record.task for record in records} == {"original"}
    assert expected["kl"][0] > 0.01
    for record in records:
        value, stderr = expected[record.metric]
        assert record.value == pytest.approx(value, rel=1e-4, abs=1e-6), record.metric
        assert record.stderr == (None if stderr is None else pytest.approx(stderr, rel=1e-3, abs=1e-6)), record.metric
        assert record.n == (384 if record.metric.startswith(("kl", "top1")) else 378)

    assert len(samples) == 6
    assert len({record.prompt_hash for record in records}) == 1
    for metric in ("kl", "top1_agreement", "perplexity"):
        scores = np.array([row.scores[metric] for row in samples])
        assert aggregate(metric, *scores.sum(0)) == pytest.approx(expected[metric][0], rel=1e-4), metric


@pytest.mark.parametrize("rows", [1, 5])
def test_few_rows_have_no_standard_error(tmp_path, rows):
    loaded, file = tiny_loaded(), tmp_path / "reference.safetensors"
    make_reference(loaded, torch.arange(64).repeat(rows, 1), "auto", NullReporter(), file)
    records = measure_original(loaded, None, ReferenceFile(file), "auto", NullReporter())
    values = {record.metric: record.value for record in records}
    assert {record.stderr for record in records} == {None}
    assert values["kl_max"] == pytest.approx(0.0, abs=1e-6)
    assert (values["top1_agreement"], values["delta_p_rms"], values["perplexity_ratio"]) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("offset", [5, 300, 40_000, -1])
def test_no_damaged_byte_is_read_as_a_number(tmp_path, offset):
    file = tmp_path / "reference.safetensors"
    make_reference(tiny_loaded(), torch.arange(128).view(2, 64), 2, NullReporter(), file)
    content = bytearray(file.read_bytes())
    content[offset] ^= 0b100
    file.write_bytes(content)
    with pytest.raises(WinaError, match="damaged"):
        ReferenceFile(file)
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(WinaError, match="damaged"):
        ReferenceFile(file)


def test_of_a_pass_that_fails_no_file_is_left(tmp_path):
    loaded = tiny_loaded()
    loaded.model.lm_head.weight.fill_(math.inf)
    with pytest.raises(WinaError, match="not numbers"):
        make_reference(loaded, torch.arange(64)[None], 1, NullReporter(), tmp_path / "reference.safetensors")
    assert not list(tmp_path.iterdir())
