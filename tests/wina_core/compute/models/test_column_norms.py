"""Norms of columns: converted in blocks they have the same bits, and remembered they follow the weights."""

import gc
import weakref

import pytest
import torch
from torch import nn

from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.models.folded_norms import column_norms, kept_column_norms
from wina_core.compute.models.quantize import int4, int8
from wina_core.compute.models.view import Projection

SHAPES = ((1, 1), (3, 5), (7, 32), (16, 33), (64, 63), (64, 64), (100, 65), (129, 257), (1000, 130), (40, 1025))


def laid_out(weight: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers in other memory."""
    rows, columns = weight.shape
    match layout:
        case "transposed":
            return weight.T.contiguous().T
        case "rows of a fused matrix":
            return torch.cat([weight, weight, weight])[rows : 2 * rows]
        case "columns":
            return torch.cat([weight, weight], dim=1)[:, columns:]
    return weight


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "rows of a fused matrix", "columns"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("block", [1, 1 << 14])
def test_blocks_give_the_bits_of_the_whole(monkeypatch, layout, dtype, block):
    monkeypatch.setattr("wina_core.compute.models.folded_norms._BLOCK", block)
    generator = torch.Generator().manual_seed(0)
    for shape in SHAPES:
        weight = laid_out(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype), layout)
        whole = weight.norm(dim=0) if weight.element_size() >= 4 else weight.float().norm(dim=0)
        assert torch.equal(column_norms(weight), whole), shape


@pytest.fixture
def projections() -> dict[str, Projection]:
    """The projections of a layer whose q, k and v, and whose gate and up, are rows of one matrix."""
    return tiny_loaded("phi3").view.layers[0].projections


def fresh(projection: Projection) -> torch.Tensor:
    return projection.weight.norm(dim=0)


def test_norms_are_computed_once_for_each_projection(projections):
    kept = {name: kept_column_norms(projection) for name, projection in projections.items()}
    for name, projection in projections.items():
        assert torch.equal(kept[name], fresh(projection))
        assert kept_column_norms(projection) is kept[name]


def test_norms_follow_weights_that_are_written_to_or_replaced(projections):
    q, k = projections["q"], projections["k"]
    before = kept_column_norms(q), kept_column_norms(k)
    q.weight.mul_(2)  # in a view of rows, as rotations do
    assert torch.equal(kept_column_norms(q), 2 * before[0])
    assert torch.equal(kept_column_norms(k), before[1])
    q.linear.weight.data = q.linear.weight.data * 2
    assert torch.equal(kept_column_norms(k), 2 * before[1])
    q.linear.weight = nn.Parameter(q.linear.weight / 2, requires_grad=False)
    assert torch.equal(kept_column_norms(q), 2 * before[0])
    q.linear.to(torch.float64)
    assert kept_column_norms(q).dtype == torch.float64


@pytest.mark.parametrize("quantize", [int8, int4])
def test_norms_of_a_quantized_layer_are_kept(quantize):
    layer = quantize(nn.Linear(64, 32, bias=False))
    projection = Projection(0, "o", layer, slice(None))
    kept = kept_column_norms(projection)
    assert torch.equal(kept, fresh(projection))
    assert kept_column_norms(projection) is kept
    scale = layer.scale
    layer._apply(lambda part: 2 * part if part is scale else part)
    assert torch.equal(kept_column_norms(projection), 2 * kept)


def test_norms_are_forgotten_with_their_layer():
    layer = nn.Linear(64, 32)
    kept = weakref.ref(kept_column_norms(Projection(0, "o", layer, slice(None))))
    assert kept() is not None
    del layer
    gc.collect()
    assert kept() is None
