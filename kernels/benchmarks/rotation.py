"""Rotating a model by symmetric eigendecompositions, against the full singular value decompositions of the published
transform, on a random Llama of hidden size 1024.

Expected before it was measured: V of W g is found from W^T W in d^3 instead of m^2 n operations and with no U, some
nine times faster for each basis. The weight multiplications are the same on both sides, so the whole should take at
most a fifth of the peer's time for `per_site` with the peer's own bases, and less for `global`, which decomposes one
matrix instead of two a layer. Logits deviate alike: the weights' float32 rounding decides, not the route. Peak memory
above the model: ours some ten float64 [d, d] matrices, the peer's all bases and one weight whole with its U, about
twice as much or more.

What was seen (`results/rotation-cpu.json`): the bar is missed at this size, and for what every route has in common. The
peer's own multiplications of the weights in float64 take a third of its time, more than the bar alone. `global` stands
at 2.5 times the peer's speed in float32; 16-bit weights, multiplied in float32 at no loss, at 4.1 times, where four
fifths of the rest are products at the machine's full speed. Size does not help: at hidden 2048 it gained no more.
`per_site` spends what it saves on two or three eigendecompositions a layer: k's null space takes one more, while the
SVD of the narrow k_proj costs the peer a fourth of such a decomposition. Multiplying float32 weights in float32 would
give 3.3 times, but then the weights alone move the logits four times as far (2.1e-6 instead of 5e-7, the forward pass
in float64), so float64 stays; sums of float32 products would make bases depend on the machine.
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
    """In float32 and bfloat16, with two threads; peak memory in float32 with one."""
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
    """How far a rotated copy's logits are from the model's."""
    rows = torch.randint(len(loaded.tokenizer), (2, 64), generator=torch.Generator().manual_seed(0))
    model = deepcopy(loaded.model)
    route(view(model))
    return {"logits_deviation": relative_deviation(probe_logits(model, rows), probe_logits(loaded.model, rows))}
