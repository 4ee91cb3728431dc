"""Arithmetic of a rotation: the Gram matrices by blocks, and 16-bit weights in 32 bits."""

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from tests.wina_core.tiny import tiny_model
from wina_core.compute.models.architectures import view
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation.apply import LayerBases, apply_bases
from wina_core.compute.rotation.statistics import weight_gram


@pytest.mark.parametrize("hidden", [32, 256, 600])
def test_a_gram_matrix_by_blocks_is_that_of_the_folded_weights(hidden: int) -> None:
    generator = torch.Generator().manual_seed(hidden)
    weights = {name: torch.randn(rows, hidden, generator=generator) for name, rows in (("gate", 520), ("up", 7))}
    norm = LlamaRMSNorm(hidden).requires_grad_(False)
    norm.weight.copy_(torch.randn(hidden, generator=generator).exp())
    layer: Any = SimpleNamespace(matrices=lambda names: (SimpleNamespace(weight=weights[name]) for name in names))
    folded = torch.cat([weight.double() * norm.weight.double() for weight in weights.values()])
    gram = weight_gram(layer, tuple(weights), norm)
    expected = folded.T @ folded
    torch.testing.assert_close(gram, expected, rtol=0, atol=1e-13 * float(expected.abs().max()))


def test_16_bit_weights_are_rotated_as_in_float64_and_rounded_once() -> None:
    model = tiny_model(dtype=torch.bfloat16)
    exact = deepcopy(model).double()
    generator = torch.Generator().manual_seed(3)
    bases = []
    for _ in range(3):
        attention, mlp = (
            torch.linalg.qr(torch.randn(32, 32, generator=generator, dtype=torch.float64)).Q for _ in range(2)
        )
        bases.append(LayerBases(attention, mlp))
    apply_bases(view(model), bases, NullReporter())
    apply_bases(view(exact), bases, NullReporter())
    equal = total = 0
    for (name, rotated), expected in zip(model.named_parameters(), exact.parameters(), strict=True):
        rounded = expected.bfloat16()
        torch.testing.assert_close(rotated, rounded, rtol=2**-7, atol=1e-6, msg=name)
        equal += int((rotated == rounded).sum())
        total += rotated.numel()
    assert equal > 0.999 * total, "all but those that 32 bits put on the other side of a rounding boundary"
