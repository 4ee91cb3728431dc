"""Bits that gates read: of weights in planes by score, of other formats by the kept inputs."""

import pytest
import torch
from wina_kernels.selection import top_k_mask
from wina_kernels.weights import MixedWeight, QuantizedWeight

from tests.wina_core.tiny import tiny_loaded, tiny_tokens
from wina_core.compute.gating import attach
from wina_core.compute.gating.linear import KeptInputs, stored_bits
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.quantized_linear import PlaneLinear, QuantizedLinear
from wina_core.compute.reporter import NullReporter
from wina_core.specs import MethodSpec, QuantizationSpec
from wina_core.specs.plans import UniformSparsity

WINA = MethodSpec(name="wina")


def model_in_planes(bits: int = 12):
    loaded = tiny_loaded("llama")
    quantize(loaded, QuantizationSpec(quantizer="planes", bits=bits), NullReporter())
    return loaded


@torch.no_grad()
def test_inputs_of_low_scores_are_read_in_the_first_planes():
    loaded = model_in_planes()
    linear = loaded.view.layers[0].projections["o"].linear
    assert isinstance(linear, PlaneLinear)
    x = torch.randn(1, 5, linear.in_features, generator=torch.Generator().manual_seed(0)) ** 3
    score = x.abs() * linear.weight_t.dequantize().norm(dim=1)
    mask = top_k_mask(score, linear.in_features // 2)
    lowest = score.masked_fill(~mask, torch.inf).amin(-1, keepdim=True)
    levels = mask * (1 + sum((score >= factor * lowest).long() for factor in linear.weight_t.ladder))
    assert len(levels.unique()) >= 4
    expected = sum((x * (levels == most)) @ linear.weight_t.dequantize(most) for most in range(1, 7)) + linear.bias
    with attach(loaded, WINA, UniformSparsity(sparsity=0.5)) as gates:
        torch.testing.assert_close(linear(x), expected)
    (group,) = next(forward.groups for forward in gates.forwards if forward.linear is linear)
    assert group.counted() == (int(mask.sum()), x.numel())
    assert group.planes_read() == int(levels.sum())
    torch.testing.assert_close(linear(x), x @ linear.weight_t.dequantize() + linear.bias)


@pytest.mark.parametrize("bits", [12, 6])
def test_bits_fall_with_the_target(bits):
    loaded, read = model_in_planes(bits), []
    for target in (0.0, 0.25, 0.5, 0.75):
        with torch.no_grad(), attach(loaded, WINA, UniformSparsity(sparsity=target)) as gates:
            loaded.model(tiny_tokens(), use_cache=False)
            read.append(gates.bits_read)
        assert target or gates.bits_read == gates.bits_held, "without a target all planes are read"
    assert read == sorted(read, reverse=True)
    assert read[2] < 0.5 * read[0]


def test_tokens_that_are_left_dense_are_read_in_all_planes():
    loaded = model_in_planes(8)
    with torch.no_grad(), attach(loaded, WINA, UniformSparsity(sparsity=0.5), dense_prefix=1.0) as gates:
        loaded.model(tiny_tokens(), use_cache=False)
    planes, masks = sum(group.planes_read() for forward in gates.forwards for group in forward.groups), gates.forwards
    assert planes == sum(4 * group.counted()[1] for forward in masks for group in forward.groups)


def test_every_part_of_a_mixed_weight_is_counted_where_its_inputs_are_kept():
    linear = torch.nn.Linear(6, 8, bias=False)
    codes = QuantizedWeight.of(torch.zeros(4, 8, dtype=torch.uint8), torch.ones(2, 8), torch.ones(2, 8), 2, 4)
    order = torch.tensor([5, 4, 3, 2, 1, 0], dtype=torch.int32)
    stored = stored_bits(QuantizedLinear(linear, MixedWeight([torch.zeros(2, 8), codes], order)))
    assert stored.inputs.tolist() == [4 * 8] * 4 + [32 * 8] * 2
    assert stored.always == 16 * 2 * 16 + 6 * 32
    counts = KeptInputs()
    counts.add(torch.tensor([[0.0, 1, 0, 0, 0, 2], [0, 1, 0, 0, 0, 0]]), None)
    assert stored.read(counts) == (2 * 32 + 256) / 2 + stored.always
    assert stored.held == 4 * 32 + 2 * 256 + stored.always


def test_padding_is_not_counted():
    counts = KeptInputs()
    counts.add(torch.ones(1, 3, 2), torch.tensor([[True, False, True]]))
    assert (counts.tokens, counts.kept_counts.tolist()) == (2, [2, 2])
