"""Norms of columns: converted in blocks they have the same bits."""

import pytest
import torch

from wina_core.methods import norms
from wina_core.methods.norms import column_norms

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
    monkeypatch.setattr(norms, "_BLOCK", block)
    generator = torch.Generator().manual_seed(0)
    for shape in SHAPES:
        weight = laid_out(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype), layout)
        whole = weight.norm(dim=0) if weight.element_size() >= 4 else weight.float().norm(dim=0)
        assert torch.equal(column_norms(weight), whole), shape


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_a_large_matrix_is_converted_in_parts(monkeypatch, layout):
    converted = []

    def record(self: torch.Tensor) -> torch.Tensor:
        converted.append(self.numel())
        return self.to(torch.float32)

    weight = laid_out(torch.ones(2048, 3333, dtype=torch.bfloat16), layout)
    monkeypatch.setattr(torch.Tensor, "float", record)
    assert torch.equal(column_norms(weight), torch.full((3333,), 2048**0.5))
    assert sum(converted) >= weight.numel()
    assert max(converted) < 2 * norms._BLOCK
