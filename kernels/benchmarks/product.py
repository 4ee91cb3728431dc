"""The gated product of one token as shipped, gating included, in every stored format, on cold weights.

The product is bound by the bytes of the rows that it reads. Expected of the native library: the bytes a second of
float32 in every format, less for 8 bits and 4 bits because of their decoding: at least 85 and 75 % at 50 % dropped.
torch.mv runs in the same turns. So do weights in planes, beside the other formats at 0 %, with thresholds at which they
read about 2.5, 3.5 and 4.5 bits a weight: at least 75 % of the bytes a second of 4 bits.

Seen (`results/product-cpu.json`), at 50 %: 87 to 102 % with 4 bits, and 87 to 90 % with 8 bits. Planes missed their aim
at some shapes of an earlier run, with 62 to 71 % of the rate of 4 bits.

What is fetched ahead decides: far ahead to the second cache and a line ahead to the nearest one, 8 and 4 bits read 37
GB/s; to one of them alone, at most 29 to 31 on this processor.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import TypeVar

import torch
from comparing import Contender, Facts, TimingComparison, compare
from torch import Tensor
from wina_kernels.backends import gated_product, load, usable
from wina_kernels.native.operations import PreparedPlanes
from wina_kernels.packing import packed_bytes
from wina_kernels.planes import MOST_PLANES, PLANE_BITS, PlaneWeight, in_planes
from wina_kernels.weights import QuantizedWeight

SHAPES = ((2048, 8192), (8192, 2048), (3072, 2048), (4096, 11008))
TOY = ((16, 64),)
SPARSITIES = (0.0, 0.5, 0.65)
FORMATS = ("float32", "bfloat16", "int8", "int4", "int3")
"""Floats, or codes with a scale an output (8 bits) or a scale and a zero for 64 inputs (fewer)."""
OF_FLOAT32 = {"int8": 0.85, "int4": 0.75}
"""The least share of float32's bytes a second that is aimed at, at 50 %."""
PLANES_READ = (2.5, 3.5, 4.5)
"""Bits of planes read per weight."""
GROUP = 64
COLD = 1 << 29
"""Bytes of weights that take turns, so that even of their kept rows none is in a cache."""
WARM = 0.01
"""Seconds of untimed calls before the timed ones."""
CALLS = 5
Weight = Tensor | QuantizedWeight
Copied = TypeVar("Copied", Tensor, QuantizedWeight, PlaneWeight)


def measure(toy: bool) -> list[TimingComparison]:
    """Measure with two threads; the peer is float32 by the first backend, so that ratios are of one turn."""
    shapes, repetitions, count, cold = (TOY, 1, 1, 0) if toy else (SHAPES, 15, 2, COLD)
    return [comparison for m, n in shapes for comparison in _of_shape(m, n, repetitions, cold, count)]


def _of_shape(m: int, n: int, repetitions: int, cold: int, count: int) -> list[TimingComparison]:
    generator = torch.Generator().manual_seed(0)
    weights = {form: _copies(_weight(form, n, m, generator), cold) for form in FORMATS}
    first, scale = usable(torch.device("cpu"))[0], torch.rand(n, generator=generator) + 0.5
    x = torch.randn(n, generator=generator).bfloat16()
    scores = (x.float().abs() * scale).sort().values
    comparisons = []
    for sparsity in SPARSITIES:
        threshold = float(scores[round(sparsity * n) - 1]) if sparsity else 0.0
        contenders, read = {}, {}
        for form in FORMATS:
            name = f"{form}, {first}"
            products = cycle([_product(first, weight, x, scale, threshold) for weight in weights[form]])
            read[name] = _bytes_read(weights[form][0], sparsity)
            of_peer = read[name] / read[f"float32, {first}"]
            barred = first == "native" and sparsity == 0.5 and form in OF_FLOAT32
            contenders[name] = _contender(name, products, of_peer / OF_FLOAT32[form] if barred else None)
        for form in ("float32", "bfloat16"):
            dense = [weight.t().contiguous() for weight in weights[form] if isinstance(weight, Tensor)]
            name, typed_x = f"{form}, torch.mv", x.to(dense[0].dtype)
            contenders[name] = _contender(name, cycle([partial(torch.mv, weight, typed_x) for weight in dense]))
            read[name] = _bytes_read(dense[0], 0.0)
        if first == "native" and sparsity == 0:
            for name, ways, size in _planes(x, scale, m, cold, generator):
                contenders[name], read[name] = _contender(name, ways), size
        setting: Facts = {"outputs": m, "inputs": n, "dropped": sparsity, "threads": count, "calls": CALLS}
        peer, *challengers = contenders.values()
        comparisons.append(_with_rates(compare(peer, challengers, repetitions, setting), read))
    return comparisons


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


def _planes(
    x: Tensor, scale: Tensor, m: int, cold: int, generator: torch.Generator
) -> Iterator[tuple[str, Iterator[Callable[[], object]], float]]:
    """Yield names, products and bytes read of weights in planes.

    The products share their turns: what one has read is in no cache when the next one reads.
    """
    weight = in_planes(torch.randn(len(scale), m, generator=generator), MOST_PLANES)
    steps = [PreparedPlanes(copy, scale) for copy in _copies(weight, cold)]
    turns = cycle(steps)
    for bits in PLANES_READ:
        threshold = _threshold(steps[0], x, bits)
        read = steps[0].above(x, threshold).read * weight.codes.shape[1]
        yield f"planes {bits:g}, native", map(partial(_above, x, threshold), turns), read


def _above(x: Tensor, threshold: float, step: PreparedPlanes) -> Callable[[], object]:
    return partial(step.above, x, threshold)


def _threshold(step: PreparedPlanes, x: Tensor, bits: float) -> float:
    """Return the threshold at which about `bits` bits of planes are read per weight."""
    low, high = 0.0, 10.0
    for _ in range(40):  # halvings of 10, down to the digits of float32
        middle = (low + high) / 2
        fewer = PLANE_BITS * step.above(x, middle).read < bits * x.numel()
        low, high = (low, middle) if fewer else (middle, high)
    return high


def _copies(weight: Copied, cold: int) -> list[Copied]:
    """Return copies that share no memory: cached scales would make those with many of them look too fast."""
    size = weight.nbytes if isinstance(weight, Tensor) else weight.bytes
    return [weight, *(deepcopy(weight) for _ in range(max(1, cold // size)))]


def _product(backend: str, weight: Weight, x: Tensor, scale: Tensor, threshold: float) -> Callable[[], object]:
    typed_x = x.to(weight.dtype) if isinstance(weight, Tensor) else x
    step = gated_product(backend, weight, scale, 0.5)
    if step is None:
        return partial(load(backend).sparse_linear, typed_x, weight, scale, threshold)
    return partial(step.above, typed_x, threshold)


def _contender(name: str, ways: Iterator[Callable[[], object]], at_most: float | None = None) -> Contender:
    return Contender(name, partial(_warm, ways), at_most)


@contextmanager
def _warm(ways: Iterator[Callable[[], object]]) -> Iterator[Callable[[], object]]:
    """Yield the timed calls after untimed ones, as within a token: a processor adapts what it fetches for some 2 ms."""
    until = time.perf_counter() + WARM
    while time.perf_counter() < until:
        next(ways)()
    yield partial(_calls, ways)


def _calls(ways: Iterator[Callable[[], object]]) -> None:
    for _ in range(CALLS):
        next(ways)()


def _bytes_read(weight: Weight, sparsity: float) -> float:
    """Return the bytes of kept rows and of all scales and zeros."""
    if isinstance(weight, Tensor):
        return (1 - sparsity) * weight.nbytes
    return weight.bytes - sparsity * weight.codes.nbytes


def _with_rates(comparison: TimingComparison, read: dict[str, float]) -> TimingComparison:
    """Add the rate of reading weights and its share of float32's, and of planes the time over that of 4 bits."""
    peer, timings = comparison.timings[0], []
    (four,) = (timing for timing in comparison.timings if timing.name == f"int4, {usable(torch.device('cpu'))[0]}")
    for timing in comparison.timings:
        rate = CALLS * read[timing.name] / timing.wall_seconds.median
        share = read[timing.name] / read[peer.name] / timing.wall_ratio.median
        facts: Facts = {"GB/s": rate / 1e9, "of float32's": share}
        if timing.name.startswith("planes"):
            facts["time over int4's"] = timing.wall_ratio.median / four.wall_ratio.median
        timings.append(replace(timing, facts=facts))
    return replace(comparison, timings=tuple(timings))
