"""Bits that gates read: of nested weights by score, of other formats by the kept inputs."""

import pytest
import torch
from wina_kernels.selection import top_k_mask
from wina_kernels.weights import MixedWeight, QuantizedWeight

from tests.wina_core.tiny import tiny_loaded, tiny_tokens
from wina_core.compute.gating import attach
from wina_core.compute.gating.bits import KeptInputs, stored_bits
from wina_core.compute.models.nested_linear import NestedLinear
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.compute.reporter import NullReporter
from wina_core.specs import MethodSpec, QuantizationSpec
from wina_core.specs.plans import UniformSparsity

WINA = MethodSpec(name="wina")


def nested_model(bits: int = 8):
    loaded = tiny_loaded("llama")
    quantize(loaded, QuantizationSpec(quantizer="nested", bits=bits, group=16), NullReporter())
    return loaded


@torch.no_grad()
def test_inputs_of_low_scores_are_read_with_the_upper_bits():
    loaded = nested_model()
    linear = loaded.view.layers[0].projections["o"].linear
    assert isinstance(linear, NestedLinear)
    x = torch.randn(1, 5, linear.in_features, generator=torch.Generator().manual_seed(0)) ** 3
    coarse, every = linear.weight_t.dequantize(coarse=True), linear.weight_t.dequantize()
    score = x.abs() * every.norm(dim=1)
    kept = top_k_mask(score, linear.in_features // 2)
    lowest = score.masked_fill(~kept, torch.inf).amin(-1, keepdim=True)
    fine = score >= linear.factor * lowest
    assert fine.any()
    expected = (x * (kept & ~fine)) @ coarse + (x * (kept & fine)) @ every + linear.bias
    with attach(loaded, WINA, UniformSparsity(sparsity=0.5)):
        torch.testing.assert_close(linear(x), expected)
    torch.testing.assert_close(linear(x), x @ every + linear.bias)


def test_without_a_target_all_bits_are_read():
    loaded = nested_model()
    with torch.no_grad(), attach(loaded, WINA, UniformSparsity(sparsity=0.0)) as gates:
        loaded.model(tiny_tokens(), use_cache=False)
    assert gates.bits_read == gates.bits_held == pytest.approx(8 + 32 / 16, rel=0.2)  # narrow outputs fill no group


@pytest.mark.parametrize("bits", [8, 6])
def test_bits_fall_with_the_target_below_four_per_kept_input_and_the_rest_of_those_that_score_high(bits):
    loaded, read = nested_model(bits), []
    for target in (0.0, 0.25, 0.5, 0.75):
        with torch.no_grad(), attach(loaded, WINA, UniformSparsity(sparsity=target)) as gates:
            loaded.model(tiny_tokens(), use_cache=False)
            read.append(gates.bits_read)
    assert read == sorted(read, reverse=True)
    assert read[2] < 0.75 * read[0]


def test_every_part_of_a_mixed_weight_is_counted_where_its_inputs_are_kept():
    linear = torch.nn.Linear(6, 8, bias=False)
    codes = QuantizedWeight.of(torch.zeros(4, 8, dtype=torch.uint8), torch.ones(2, 8), torch.ones(2, 8), 2, 4)
    order = torch.tensor([5, 4, 3, 2, 1, 0], dtype=torch.int32)
    stored = stored_bits(QuantizedLinear(linear, MixedWeight([torch.zeros(2, 8), codes], order)))
    assert stored.inputs.tolist() == [4 * 8] * 4 + [32 * 8] * 2
    assert stored.always == 16 * 2 * 16 + 6 * 32
    counts = KeptInputs()
    counts.add(torch.tensor([[0.0, 1, 0, 0, 0, 2], [0, 1, 0, 0, 0, 0]]), None, None)
    assert stored.read(counts) == (2 * 32 + 256) / 2 + stored.always
    assert stored.held == 4 * 32 + 2 * 256 + stored.always


def test_padding_is_not_counted():
    counts = KeptInputs()
    counts.add(torch.ones(1, 3, 2), torch.ones(1, 3, 2, dtype=torch.bool), torch.tensor([[True, False, True]]))
    assert (counts.tokens, counts.kept.tolist(), int(counts.fine)) == (2, [2, 2], 4)
