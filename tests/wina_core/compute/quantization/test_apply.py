"""Models quantized by a spec: what is stored, what it holds, and how far it is from the model before."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_folder, tiny_loaded, tiny_text, tiny_tokens
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import mean_divergence, probe_logits
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.compute.models.shape import summarize
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.quantization import apply
from wina_core.compute.quantization.rounding import (
    best_ranges,
    encode,
    error_compensated,
    grouped,
    grouped_weights,
    half_quadratic,
    levels,
    reverse_cholesky,
    round_to_nearest,
)
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.errors import WinaError
from wina_core.files.paths import cache_folder
from wina_core.specs import NO_ROTATION, BitsPlan, ModelSource, QuantizationSpec, TextSpec


@pytest.fixture
def text(tmp_path) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)


def quantized(text: TextSpec, family: str = "llama", **fields) -> LoadedModel:
    loaded = tiny_loaded(family)
    quantize(loaded, spec_of(text, **fields), NullReporter())
    return loaded


def spec_of(text: TextSpec, **fields) -> QuantizationSpec:
    return QuantizationSpec.model_validate({"quantizer": "gptq", "group": 16, "text": text, **fields})


@torch.no_grad()
def logits(loaded: LoadedModel) -> torch.Tensor:
    return loaded.model(tiny_tokens()).logits


def held_bits(loaded: LoadedModel) -> float:
    """Bits in memory for each gated weight, shared orders once."""
    linears = {projection.linear for layer in loaded.view.layers for projection in layer.projections.values()}
    assert {type(linear) for linear in linears} == {QuantizedLinear}
    sizes = {buffer.data_ptr(): buffer.nbytes for linear in linears for buffer in linear.buffers()}
    return 8 * sum(sizes.values()) / sum(linear.in_features * linear.out_features for linear in linears)


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("llama", {"quantizer": "rtn", "bits": 3}),
        ("opt", {"bits": 4}),
        ("phi3", {"bits": 4}),
        ("phi3", {"bits": 4.5, "by_energy": True}),
    ],
)
def test_gated_matrices_hold_what_was_asked_for(text, family, fields):
    loaded = quantized(text, family, **fields)
    allowed = fields["bits"] + 32 / 16
    assert 0.9 * allowed <= held_bits(loaded) <= 1.001 * allowed, "tiny rows are packed into whole bytes"
    assert logits(loaded).isfinite().all()
    assert loaded.quantization_report.quantization == spec_of(text, **fields).label


def test_more_bits_are_nearer_and_gptq_is_nearer_than_rounding_on_its_text(text):
    loaded = tiny_loaded()
    tokens = read_tokens(text, loaded.tokenizer)
    before = probe_logits(loaded.view, tokens)
    divergence = {
        (quantizer, bits): mean_divergence(
            before, probe_logits(quantized(text, quantizer=quantizer, bits=bits).view, tokens)
        )
        for quantizer, bits in (("rtn", 6), ("rtn", 3), ("gptq", 3))
    }
    assert divergence["rtn", 6] < divergence["gptq", 3] < divergence["rtn", 3]


def test_a_plan_gives_each_matrix_its_bits(text):
    layout = tiny_loaded().view.layout
    plan = BitsPlan.uniform(layout, 4).with_cells({(0, 0): 8, (1, 6): 16})
    projections = [layer.projections for layer in quantized(text, quantizer="rtn", bits=plan).view.layers]
    assert projections[0]["q"].linear.weight_t.bits == 8
    assert projections[0]["k"].linear.weight_t.bits == 4
    assert type(projections[1]["down"].linear) is torch.nn.Linear, "16 bits stay as they are"


def test_fused_matrices_take_equal_bits(text):
    plan = BitsPlan.uniform(tiny_loaded("phi3").view.layout, 4).with_cells({(0, 1): 8})
    with pytest.raises(WinaError, match=r"q, k, v of layer 0 are one matrix in this model .* has q 4, k 8, v 4; give"):
        quantized(text, "phi3", bits=plan)


def test_the_head_has_bits_of_its_own_and_a_tied_embedding_stays(text):
    before, loaded = tiny_loaded(), quantized(text, quantizer="rtn", head_bits=8)
    head = loaded.view.head
    assert (type(head), head.weight_t.bits) == (QuantizedLinear, 8)
    assert torch.equal(loaded.view.embedding.weight, before.view.embedding.weight)
    loaded.model.tie_weights()
    assert type(loaded.model.get_output_embeddings()) is QuantizedLinear
    assert summarize(loaded).shape.head_weights == summarize(before).shape.head_weights
    torch.testing.assert_close(head.weight, before.view.head.weight, rtol=0, atol=0.02)


def test_a_budget_below_two_bits_with_scales_is_named(text):
    with pytest.raises(WinaError, match="fewer than any choice holds"):
        quantized(text, bits=2, by_energy=True, group=128)
    planes = QuantizationSpec(quantizer="planes", bits=2.05, by_energy=True, text=text)
    with pytest.raises(WinaError, match="fewer than one plane of every input with its scale") as raised:
        quantize(tiny_loaded(), planes, NullReporter())
    (least,) = re.findall(r"allow ([\d.]+) or more", str(raised.value))
    loaded = tiny_loaded()
    quantize(loaded, planes.model_copy(update={"bits": float(least)}), NullReporter())
    assert logits(loaded).isfinite().all()


@pytest.mark.usefixtures("home")
def test_weights_are_quantized_once_and_a_damaged_file_is_made_anew(text, tmp_path, monkeypatch):
    folder = str(tiny_folder(tmp_path / "model"))
    sources = [
        ModelSource(location=folder, quantization=spec_of(text, **fields))
        for fields in ({"bits": 4.5, "by_energy": True, "head_bits": 8}, {"bits": 3})
    ]
    first = [logits(Session().prepare(source, NO_ROTATION, NullReporter())) for source in sources]
    with monkeypatch.context() as patched:
        patched.setattr(apply, "second_moments", lambda *_: pytest.fail("measured again"))
        for source, expected in zip(sources, first, strict=True):
            again = Session().prepare(source, NO_ROTATION, NullReporter())
            assert torch.equal(logits(again), expected)
            assert held_bits(again) <= source.quantization.bits + 32 / 16
    files = sorted((cache_folder() / "quantized").iterdir())
    assert len(files) == 2
    for file in files:
        file.write_bytes(file.read_bytes()[:1000])
    reporter = RecordingReporter()
    assert torch.equal(logits(Session().prepare(sources[0], NO_ROTATION, reporter)), first[0])


# ---- quantizers of one matrix, against a float64 reference -----------------------------------------------------------


BITS = (8, 6, 4, 3, 2)


def matrix(inputs: int, outputs: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(inputs, outputs, generator=random) * torch.rand(inputs, 1, generator=random)


def moments(inputs: int, seed: int = 1) -> torch.Tensor:
    x = matrix(3 * inputs, inputs, seed) @ matrix(inputs, inputs, seed + 1)
    return x.T @ x / len(x)


@settings(max_examples=30, deadline=None)
@given(
    inputs=st.integers(1, 70),
    outputs=st.integers(1, 9),
    bits=st.sampled_from(BITS),
    group=st.sampled_from((16, 32)),
    quantizer=st.sampled_from((round_to_nearest, half_quadratic)),
    scale=st.sampled_from((1.0, 1e-6, 1e4)),
)
def test_codes_fit_their_bits_and_survive_packing(inputs, outputs, bits, group, quantizer, scale):
    weight_t = scale * matrix(inputs, outputs)
    codes = quantizer(weight_t, bits, group)
    low, high = levels(bits)
    assert low <= int(codes.unpacked().min()) <= int(codes.unpacked().max()) <= high
    assert codes.scale.shape == (-(-inputs // group), outputs)
    torch.testing.assert_close(codes.dequantize(), weight_t, rtol=0, atol=float(weight_t.abs().max()))


@pytest.mark.parametrize("quantizer", [round_to_nearest, half_quadratic])
def test_equal_weights_and_zeros_are_kept(quantizer):
    for value in (0.0, 0.5):
        weight_t = torch.full((32, 3), value)
        torch.testing.assert_close(quantizer(weight_t, 3, 16).dequantize(), weight_t, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("bits", BITS)
def test_optimized_ranges_are_never_worse_than_the_full_range(bits):
    weight_t = grouped(matrix(128, 16), 64)
    importance = grouped_weights(torch.rand(128, generator=torch.Generator().manual_seed(2)), 64)
    scale, zero = best_ranges(weight_t, importance, bits)

    def error(scale: torch.Tensor, zero: torch.Tensor | None) -> torch.Tensor:
        codes = encode(weight_t, scale, zero, bits)
        values = (codes if zero is None else codes - zero[:, None]) * scale[:, None]
        return (importance * (values - weight_t).square()).sum(1)

    least, most = weight_t.amin(1), weight_t.amax(1)
    full = weight_t.abs().amax(1) / 127 if bits == 8 else (most - least) / (2**bits - 1)
    naive = error(full, None if bits == 8 else -least / full)
    assert (error(scale, zero) <= naive * 1.02).all()
    if bits < 6:
        assert error(scale, zero).mean() < 0.95 * naive.mean()


def test_the_factor_is_that_of_the_damped_moments():
    given_moments = moments(12).double()
    factor = reverse_cholesky(given_moments, damping=0.5)
    damped = given_moments + 0.5 * given_moments.diagonal().mean() * torch.eye(12)
    torch.testing.assert_close(factor @ factor.T, damped)
    assert torch.equal(factor, factor.triu())
    torch.testing.assert_close(reverse_cholesky(torch.zeros(3, 3)), torch.eye(3, dtype=torch.float64))


def papers_rows(
    weight_t: torch.Tensor, given_moments: torch.Tensor, bits: int, scale: torch.Tensor, zero: torch.Tensor
) -> torch.Tensor:
    """W^T quantized by the paper's algorithm in float64 for known ranges, the inverse downdated after each row."""
    n = len(weight_t)
    moment = given_moments.double()
    inverse = torch.linalg.inv(moment + 0.01 * moment.diagonal().mean() * torch.eye(n))
    rows, values = weight_t.double().clone(), torch.zeros(n, weight_t.shape[1], dtype=torch.float64)
    for row in range(n):
        codes = (rows[row] / scale[row] + zero[row]).round().clamp(*levels(bits))
        values[row] = (codes - zero[row]) * scale[row]
        rows[row + 1 :] -= inverse[row + 1 :, row, None] * (rows[row] - values[row]) / inverse[row, row]
        inverse = inverse - inverse[:, row : row + 1] @ inverse[row : row + 1] / inverse[row, row]
        inverse[row, row] = 1.0
    return values


@pytest.mark.parametrize("bits", [4, 3])
def test_error_compensation_is_the_papers(bits):
    weight_t, given_moments = matrix(40, 5), moments(40)
    (codes,) = error_compensated(weight_t, reverse_cholesky(given_moments), [(40, bits)], 16)
    scale, zero = (ranges.double().repeat_interleave(16, 0)[:40] for ranges in (codes.scale, codes.zero))
    expected = papers_rows(weight_t, given_moments, bits, scale, zero)
    same = (codes.dequantize().double() - expected).abs() < scale / 2
    assert same.double().mean() > 0.97, "but for ties, which rounding in 32 bits breaks otherwise"


def test_error_compensation_leaves_less_error_than_rounding_and_runs_of_16_bits_take_up_the_rest():
    weight_t, given_moments = matrix(64, 6), moments(64)

    def left(values: torch.Tensor) -> float:
        change = (weight_t - values).double()
        return float(torch.trace(change.T @ given_moments.double() @ change))

    factor = reverse_cholesky(given_moments)
    runs = [(16, 4), (16, 3), (32, 2)]
    compensated = torch.cat([run.dequantize() for run in error_compensated(weight_t, factor, runs, 16)])
    ends = zip((0, 16, 32), (16, 32, 64), (4, 3, 2), strict=True)
    rounded = torch.cat([round_to_nearest(weight_t[a:b], bits, 16).dequantize() for a, b, bits in ends])
    assert left(compensated) < 0.6 * left(rounded)
    some, rest = error_compensated(weight_t, factor, [(32, 3), (32, 16)], 16)
    assert not torch.equal(rest, weight_t[32:])
    assert left(torch.cat((some.dequantize(), rest))) < left(torch.cat((some.dequantize(), weight_t[32:])))
