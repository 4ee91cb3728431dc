"""The gated product of prompts and batches as shipped, against the dense product of the same width, on cold weights.

Gated weights of floats are stored transposed, and several rows together keep almost every input, so gating can gain
little here; it must cost nothing. Dense: floats as the model has them, with PyTorch's library; codes with all inputs
kept, dequantized for more than 8 rows, as a quantized layer does without gates. Expected: at most 1.05 times the dense
time for every width and number of rows, 0.05 of it for the masks.

Seen (`results/many_rows-cpu.json`): see the README's limits. Before the native kernel, bfloat16 took 1.5 to 2.1 times
as long for 16 to 64 rows, 1.1 for 256 and more, and 1.5 for 8.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import cycle

import torch
from comparing import Comparison, Contender, compare
from product import random_weight
from random_models import threads
from torch import Tensor
from torch.nn import functional
from wina_kernels import sparse_linear
from wina_kernels.dense import MOST_ROWS
from wina_kernels.weights import WeightT

SHAPES = ((2048, 8192), (8192, 2048))
TOY = ((16, 64),)
ROWS = (2, 4, 8, 16, 64, 256, 1024)
FORMATS = ("float32", "bfloat16", "int8", "int4")
SPARSITIES = (0.0, 0.5)
AT_MOST = 1.05
COPIES = 4
"""Weights that take turns, so that none is in a cache."""


def measure(toy: bool) -> list[Comparison]:
    """Measure with two threads."""
    shapes, rows, repetitions, count = (TOY, (2, 16), 1, 1) if toy else (SHAPES, ROWS, 9, 2)
    with threads(count), torch.inference_mode():
        return [
            _compared(m, n, form, many, repetitions, count) for m, n in shapes for form in FORMATS for many in rows
        ]


def _compared(m: int, n: int, form: str, rows: int, repetitions: int, count: int) -> Comparison:
    generator = torch.Generator().manual_seed(0)
    weights = [random_weight(form, n, m, generator) for _ in range(COPIES)]
    dtype = weights[0].dtype if isinstance(weights[0], Tensor) else torch.bfloat16
    x, scale = torch.randn(rows, n, generator=generator).to(dtype), torch.rand(n, generator=generator) + 0.5
    scores = (x.float().abs() * scale).flatten().sort().values
    peer = Contender("dense", partial(nullcontext, partial(_next, cycle([_dense(weight, x) for weight in weights]))))
    gated = []
    for sparsity in SPARSITIES:
        threshold = float(scores[int(sparsity * len(scores))]) if sparsity else -1.0
        ways = [partial(sparse_linear, x, weight, scale, threshold, None, sparsity) for weight in weights]
        gated.append(Contender(f"{sparsity:.0%} dropped", partial(nullcontext, partial(_next, cycle(ways))), AT_MOST))
    setting = {"format": form, "outputs": m, "inputs": n, "rows": rows, "threads": count}
    return compare(peer, gated, repetitions, dict(setting))


def _dense(weight: WeightT, x: Tensor) -> Callable[[], object]:
    if isinstance(weight, Tensor):
        return partial(functional.linear, x, weight.t().contiguous())
    if len(x) <= MOST_ROWS:
        return partial(sparse_linear, x, weight, None, 0.0, None, 0.0)
    return lambda: functional.linear(x, weight.dequantize().to(x.dtype).t())


def _next(ways: "cycle[Callable[[], object]]") -> None:
    for _ in range(COPIES):
        next(ways)()
