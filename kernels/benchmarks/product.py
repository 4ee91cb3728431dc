"""The sparse product of one token as shipped, gating included, against torch.mv of the same dtype on the weight in its
usual layout, at the paper's two shapes.

The product is bound by the bytes of the rows it reads. Expected, from a trial that read one long run per kept row at
torch.mv's rate: 1.35 times torch.mv's speed at 40 %, 1.7 at 50 %, 2.3 at 65 %, and dense below 25 %.

Seen (`results/product-cpu.json`): faster than torch.mv already at 0 %, in both dtypes. Steps, at 5120 x 17920 in
float32 against torch.mv at 50 %: signed indices prevent vectorization: 0.9; unsigned ones, outputs divided among
threads: 2.5; inputs divided instead, so that each row is one run: 3.4. Prefetching the next four rows was slower (2.2
to 2.4), and huge pages changed nothing.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import cycle

import torch
from comparing import Comparison, Contender, Facts, compare
from random_models import threads
from torch import Tensor
from wina_kernels import sparse_linear

SHAPES = ((5120, 17920), (4096, 11008))
TOY = ((8, 16),)
AT_MOST = {0.0: 1 / 0.97, 0.25: 1 / 0.97, 0.4: 1 / 1.35, 0.5: 1 / 1.7, 0.65: 1 / 2.3}
"""By sparsity."""
COLD = 1 << 28
"""Bytes of weights that take turns, so that none is in a cache."""
CALLS = 5


def measure(toy: bool) -> list[Comparison]:
    """Measure in float32 and bfloat16, with two threads."""
    shapes, repetitions, count, cold = (TOY, 1, 1, 0) if toy else (SHAPES, 9, 2, COLD)
    dtypes = (torch.float32, torch.bfloat16)
    with threads(count):
        return [_with_bytes(_compare(m, n, dtype, repetitions, cold, count)) for m, n in shapes for dtype in dtypes]


def _compare(m: int, n: int, dtype: torch.dtype, repetitions: int, cold: int, count: int) -> Comparison:
    generator = torch.Generator().manual_seed(0)
    copies = max(2, cold // (m * n * dtype.itemsize) + 1)
    weights = [torch.randn(m, n, generator=generator).to(dtype) for _ in range(copies)]
    transposed = [weight.t().contiguous() for weight in weights]
    x, scale = torch.randn(n, generator=generator).to(dtype), weights[0].float().norm(dim=0)
    scores = (x.float().abs() * scale).sort().values
    contenders = []
    for sparsity, at_most in AT_MOST.items():
        threshold = float(scores[round(sparsity * n) - 1]) if sparsity else 0.0
        product = partial(_calls, lambda weight, threshold=threshold: sparse_linear(x, weight, scale, threshold))
        contenders.append(Contender(_name(sparsity), partial(nullcontext, partial(product, transposed)), at_most))
    dense = Contender("torch.mv", partial(nullcontext, partial(_calls, lambda weight: torch.mv(weight, x), weights)))
    setting: Facts = {
        "outputs": m,
        "inputs": n,
        "dtype": str(dtype).removeprefix("torch."),
        "threads": count,
        "calls": CALLS,
    }
    return compare(dense, contenders, repetitions, setting)


def _with_bytes(comparison: Comparison) -> Comparison:
    """Add the rate of reading weights, and its fraction of the rate at 0 %, as facts."""
    setting = comparison.setting
    size = int(setting["outputs"]) * int(setting["inputs"]) * (4 if setting["dtype"] == "float32" else 2) * CALLS
    rates = {}
    for timing in comparison.timings:
        kept = 1.0 if timing is comparison.timings[0] else 1 - float(timing.name.split()[0]) / 100
        rates[timing.name] = kept * size / timing.wall_seconds.median
    facts = {
        name: {"GB/s": rate / 1e9, "of what its bytes allow": rate / rates[_name(0.0)]} for name, rate in rates.items()
    }
    timings = tuple(replace(timing, facts=facts[timing.name]) for timing in comparison.timings)
    return replace(comparison, timings=timings)


def _name(sparsity: float) -> str:
    return f"{100 * sparsity:g} % dropped"


def _calls(product: Callable[[Tensor], Tensor], weights: Sequence[Tensor]) -> None:
    for _, weight in zip(range(CALLS), cycle(weights), strict=False):
        product(weight)
