"""Rotation by symmetric eigendecompositions, against the full singular value decompositions of the published transform,
on a random Llama of hidden size 1024.

Expected: V of W g is found from W^T W in d^3 instead of m^2 n operations and without U, some nine times faster for each
basis, so `per_site` takes at most a fifth of the peer's time and `global`, with one decomposition, less. Logits deviate
alike. Peak memory above the model: ours some ten float64 [d, d] matrices, the peer's twice as much or more.

Seen (`results/rotation-cpu.json`): the bar is missed at this size, because the peer's weight products in float64 alone
take a third of its time. `global` is 2.5 times as fast in float32 and 4.1 times for 16-bit weights, which are
multiplied in float32. `per_site` spends its gain on two or three eigendecompositions a layer: k's null space takes one
more, while the SVD of the narrow k_proj is cheap. Float32 products of float32 weights would give 3.3 times, but move
the logits four times as far (2.1e-6 instead of 5e-7), and bases would depend on the machine.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial

import torch
from comparing import Comparison, Contender, Facts, compare
from peak_memory import peak_memory
from random_models import Size, random_llama, threads
from routes import PEER, ROUTES, Route

from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import probe_logits, relative_deviation

SIZE = Size(hidden=1024, intermediate=2816, layers=4, heads=16, kv_heads=4)
TOY = Size(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2)
AT_MOST = 0.2


def measure(toy: bool) -> list[Comparison]:
    """Measure in float32 and bfloat16 with two threads; peak memory in float32 with one."""
    size, repetitions, count = (TOY, 1, 1) if toy else (SIZE, 3, 2)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        loaded = random_llama(size, dtype)
        facts = {name: _facts(route, loaded) for name, route in ROUTES.items()}
        if dtype == torch.float32 and not toy:  # a process for each
            facts = {name: given | peak_memory(name, size.facts) for name, given in facts.items()}
        contenders = [
            Contender(name, partial(_ready, route, loaded), None if name == PEER else AT_MOST)
            for name, route in ROUTES.items()
        ]
        setting: Facts = {**size.facts, "dtype": str(dtype).removeprefix("torch."), "threads": count}
        with threads(count):
            found.append(compare(contenders[0], contenders[1:], repetitions, setting, facts))
    return found


@contextmanager
def _ready(route: Route, loaded: LoadedModel) -> Iterator[partial[None]]:
    yield partial(route, view(deepcopy(loaded.model)))


def _facts(route: Route, loaded: LoadedModel) -> Facts:
    rows = torch.randint(len(loaded.tokenizer), (2, 64), generator=torch.Generator().manual_seed(0))
    model = deepcopy(loaded.model)
    route(view(model))
    return {"logits_deviation": relative_deviation(probe_logits(view(model), rows), probe_logits(loaded.view, rows))}
