"""The gated product of one token as shipped, gating included, in every stored format, on cold weights.

The product is bound by the bytes of the rows that it reads. Expected of the native library: the bytes a second of
float32 in every format, less for 8 bits and 4 bits because of their decoding: at least 85 and 75 % at 50 % dropped.
Numba's loops, the fall-back, and torch.mv run in the same turns.

Seen (`results/product-cpu.json`), at 50 %: 65 to 79 % with 8 bits and 60 to 74 % with 4 bits, below the aims: float32
reads 37 to 49 GB/s here, twice torch.mv's rate, and shorter rows are read more slowly (bfloat16: 69 to 81 %). Against
numba's loops 8 bits gain 1.5 to 2.0 times and 4 bits 3.2 to 3.9 times.

Steps, each from development runs of its own (INT4 at 50 %, 8192 x 2048, 5th percentiles of times, of float32's bytes a
second): 32 rows at a time, the next 32 fetched in one long run each: 0.65; nothing fetched: 0.59, for a core waits
between reading and multiplying; segments of 512 bytes, the next one fetched while this one is interleaved and
multiplied: 0.70 to 0.87; of 256 bytes: 0.77. Of numba's loops only those for floats are bound by memory. The results
are older than float32's present loop for single rows, of eight at a time with the next eight fetched ahead.
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
from wina_kernels.backends import gated_product, load, usable
from wina_kernels.packing import packed_bytes
from wina_kernels.weights import QuantizedWeight

SHAPES = ((2048, 8192), (8192, 2048), (3072, 2048), (4096, 11008))
TOY = ((16, 64),)
SPARSITIES = (0.0, 0.5, 0.65)
FORMATS = ("float32", "bfloat16", "int8", "int4", "int3")
"""Floats, or codes with a scale an output (8 bits) or a scale and a zero for 64 inputs (fewer)."""
OF_FLOAT32 = {"int8": 0.85, "int4": 0.75}
"""The least share of float32's bytes a second that is aimed at, at 50 %."""
GROUP = 64
COLD = 1 << 27
"""Bytes of weights that take turns, so that none is in a cache."""
CALLS = 5
Weight = Tensor | QuantizedWeight


def measure(toy: bool) -> list[Comparison]:
    """Measure with two threads; the peer is float32 by the first backend, so that ratios are of one turn."""
    shapes, repetitions, count, cold = (TOY, 1, 1, 0) if toy else (SHAPES, 15, 2, COLD)
    with threads(count):
        return [found for m, n in shapes for found in _of_shape(m, n, repetitions, cold, count)]


def _of_shape(m: int, n: int, repetitions: int, cold: int, count: int) -> list[Comparison]:
    generator = torch.Generator().manual_seed(0)
    weights = {form: _copies(_weight(form, n, m, generator), cold) for form in FORMATS}
    first, scale = usable(torch.device("cpu"))[0], torch.rand(n, generator=generator) + 0.5
    x = torch.randn(n, generator=generator).bfloat16()
    scores = (x.float().abs() * scale).sort().values
    found = []
    for sparsity in SPARSITIES:
        threshold = float(scores[round(sparsity * n) - 1]) if sparsity else 0.0
        contenders, read = {}, {}
        for backend in dict.fromkeys((first, "cpu")):
            for form in FORMATS:
                name = f"{form}, {backend}"
                ways = [_product(backend, weight, x, scale, threshold) for weight in weights[form]]
                read[name] = _bytes_read(weights[form][0], sparsity)
                of_peer = read[name] / read[f"float32, {first}"]
                barred = backend == "native" and sparsity == 0.5 and form in OF_FLOAT32
                contenders[name] = _contender(name, ways, of_peer / OF_FLOAT32[form] if barred else None)
        for form in ("float32", "bfloat16"):
            dense = [weight.t().contiguous() for weight in weights[form] if isinstance(weight, Tensor)]
            name, own = f"{form}, torch.mv", x.to(dense[0].dtype)
            contenders[name] = _contender(name, [partial(torch.mv, weight, own) for weight in dense])
            read[name] = _bytes_read(dense[0], 0.0)
        setting: Facts = {"outputs": m, "inputs": n, "dropped": sparsity, "threads": count, "calls": CALLS}
        peer, *others = contenders.values()
        found.append(_with_rates(compare(peer, others, repetitions, setting), read))
    return found


def _weight(form: str, n: int, m: int, generator: torch.Generator) -> Weight:
    """Return a random W^T [n, m]; the time does not depend on the codes."""
    if not form.startswith("int"):
        return torch.randn(n, m, generator=generator).to(getattr(torch, form))
    bits = int(form[3:])
    group = n if bits == 8 else GROUP
    codes = torch.randint(0, 256, (n, packed_bytes(bits, m)), generator=generator).to(torch.uint8)
    scale = torch.rand(-(-n // group), m, generator=generator).bfloat16()
    if bits == 8:
        return QuantizedWeight(codes.view(torch.int8), scale, None, group, 8)
    return QuantizedWeight(codes, scale, torch.full_like(scale, 1 << (bits - 1)), group, bits)  # type: ignore[arg-type]


def _copies(weight: Weight, cold: int) -> list[Weight]:
    size = weight.nbytes if isinstance(weight, Tensor) else weight.bytes
    copies = range(max(1, cold // size))
    if isinstance(weight, Tensor):
        return [weight, *(weight.clone() for _ in copies)]
    return [weight, *(replace(weight, codes=weight.codes.clone()) for _ in copies)]


def _product(backend: str, weight: Weight, x: Tensor, scale: Tensor, threshold: float) -> Callable[[], object]:
    own = x.to(weight.dtype) if isinstance(weight, Tensor) else x
    step = gated_product(backend, weight, scale, 0.5)
    if step is None:
        return partial(load(backend).sparse_linear, own, weight, scale, threshold)
    return partial(step.above, own, threshold)


def _contender(name: str, ways: Sequence[Callable[[], object]], at_most: float | None = None) -> Contender:
    return Contender(name, partial(nullcontext, partial(_calls, cycle(ways))), at_most)


def _calls(ways: "cycle[Callable[[], object]]") -> None:
    for _ in range(CALLS):
        next(ways)()


def _bytes_read(weight: Weight, sparsity: float) -> float:
    """Return the bytes of kept rows and of all scales and zeros."""
    if isinstance(weight, Tensor):
        return (1 - sparsity) * weight.nbytes
    return weight.bytes - sparsity * weight.codes.nbytes


def _with_rates(comparison: Comparison, read: dict[str, float]) -> Comparison:
    """Add the rate of reading weights, and its share of float32's, as facts."""
    peer = comparison.timings[0]
    timings = []
    for timing in comparison.timings:
        rate = CALLS * read[timing.name] / timing.wall_seconds.median
        share = read[timing.name] / read[peer.name] / timing.wall_ratio.median
        timings.append(replace(timing, facts={"GB/s": rate / 1e9, "of float32's": share}))
    return replace(comparison, timings=tuple(timings))
