"""The kernels between the products of a decoding step, against transformers' own modules."""

import importlib
from functools import partial

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from tests.interpreter import DEVICE, runs

pytest.importorskip("triton", reason="Triton ships for Linux alone")
gpu = importlib.import_module("wina_kernels.gpu")
from wina_kernels.gpu.steps import ATTENTION_BLOCK, Attention, add_norm, silu_mul  # noqa: E402

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


def randoms(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=random).to(dtype).to(DEVICE) for shape in shapes]


def rounded(sums: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
    """The product that the shares of its sums are of, as a linear layer returns it."""
    return (sums.float().sum(0) + bias.float()).to(dtype)


def close(actual: Tensor, expected: Tensor) -> None:
    """In bfloat16 within four roundings, because the interpreter rounds towards zero."""
    assert actual.dtype == expected.dtype
    bound = 1e-5 if actual.dtype == torch.float32 else 2**-5
    torch.testing.assert_close(actual, expected, rtol=bound, atol=bound)


@runs
@DTYPES
@pytest.mark.parametrize(("n", "shares"), [(200, 1), (200, 4), (64, 16), (130, 0)])
def test_a_product_is_added_and_the_stream_normalized(dtype: torch.dtype, n: int, shares: int) -> None:
    stream, bias, gain = randoms(dtype, (n,), (n,), (n,))
    (sums,) = randoms(torch.float32, (shares, n))
    norm = LlamaRMSNorm(n, 1e-5).to(DEVICE, dtype)
    norm.weight.data = gain
    expected = stream + rounded(sums, bias, dtype) if shares else stream.clone()
    out, squares = torch.empty_like(stream), torch.empty(8, device=DEVICE)
    counter = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    add_norm(stream, sums if shares else None, bias, gain, 1e-5, out, squares, counter)
    close(stream, expected)
    close(out, norm(stream))
    assert not counter.any(), "the next launch begins at 0"


@runs
@DTYPES
@pytest.mark.parametrize("shares", [1, 8])
def test_the_units_of_an_mlp(dtype: torch.dtype, shares: int) -> None:
    (sums,), (bias, out) = randoms(torch.float32, (shares, 300)), randoms(dtype, (300,), (150,))
    gate, up = rounded(sums, bias, dtype).chunk(2)
    silu_mul(sums, bias, out)
    close(out, torch.nn.functional.silu(gate) * up)


def attention(dtype: torch.dtype, past: int, window: int, normalized: bool, heads: int, kv_heads: int) -> None:
    """Compare a token after `past` others with transformers' operations, and the cache's entry."""
    size, capacity, shares = 24, 3 * ATTENTION_BLOCK + 8, 2
    outputs = (heads + 2 * kv_heads) * size
    keys, values, bias, *gains = randoms(
        dtype, (kv_heads, capacity, size), (kv_heads, capacity, size), (outputs,), (size,), (size,)
    )
    (sums,) = randoms(torch.float32, (shares, outputs))
    config = LlamaConfig(hidden_size=size * heads, num_attention_heads=heads, max_position_embeddings=capacity)
    rotary = LlamaRotaryEmbedding(config).to(DEVICE)
    every = torch.arange(capacity, device=DEVICE)[None]
    cosines, sines = (table[0] for table in rotary(torch.empty(0, dtype=dtype, device=DEVICE), every))
    q, k, v = rounded(sums, bias, dtype).split([heads * size, kv_heads * size, kv_heads * size])
    q, k, v = q.view(1, heads, 1, size), k.view(1, kv_heads, 1, size), v.view(kv_heads, 1, size)
    if normalized:
        norms = [Qwen3RMSNorm(size, 1e-6).to(DEVICE, dtype) for _ in gains]
        for norm, gain in zip(norms, gains, strict=True):
            norm.weight.data = gain
        q, k = norms[0](q), norms[1](k)
    q, k = apply_rotary_pos_emb(q, k, cosines[past][None, None], sines[past][None, None])
    expected_keys, expected_values = keys.clone(), values.clone()
    expected_keys[:, past], expected_values[:, past] = k[0, :, 0], v[:, 0]
    seen = slice(max(0, past - window + 1) if window else 0, past + 1)
    repeat = partial(torch.repeat_interleave, repeats=heads // kv_heads, dim=0)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q[0].float(), repeat(expected_keys[:, seen]).float(), repeat(expected_values[:, seen]).float()
    )
    half = size // 2
    step = Attention.of(heads, kv_heads, cosines[:, :half].float().contiguous(), sines[:, :half].float().contiguous())
    step.position.fill_(past)
    out = torch.empty(heads * size, dtype=dtype, device=DEVICE)
    norm_arguments = (*gains, 1e-6) if normalized else None
    for _ in range(2):
        step(sums, bias, norm_arguments, keys, values, out, size**-0.5, window)
        close(out.view(heads, size), expected[:, 0].to(dtype))
        close(keys, expected_keys)
        close(values, expected_values)
        assert not step.counters.any(), "the next launch begins at 0"


@runs
@pytest.mark.parametrize(
    ("past", "dtype"),
    [
        *((past, torch.float32) for past in (0, 1, ATTENTION_BLOCK, 2 * ATTENTION_BLOCK + 5)),
        (2 * ATTENTION_BLOCK + 5, torch.bfloat16),
    ],
    ids=str,
)
def test_a_token_sees_what_came_before_it(dtype: torch.dtype, past: int) -> None:
    attention(dtype, past, window=0, normalized=False, heads=6, kv_heads=2)


@runs
@pytest.mark.parametrize("window", [1, 7, ATTENTION_BLOCK + 3])
def test_a_window_limits_what_is_seen(window: int) -> None:
    attention(torch.float32, 2 * ATTENTION_BLOCK + 5, window, normalized=False, heads=2, kv_heads=2)


@runs
@DTYPES
def test_heads_that_are_normalized(dtype: torch.dtype) -> None:
    attention(dtype, ATTENTION_BLOCK + 3, window=0, normalized=True, heads=3, kv_heads=1)
