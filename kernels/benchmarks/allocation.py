"""TEAL's greedy allocation of one decoder layer as shipped, against the same search with every output recomputed for
every candidate, on a random Llama of hidden size 512.

Both searches must end at the same plan. The naive one runs the whole layer over all tokens for each candidate; ours
(see `wina_core.compute.allocation.layer_error`) recomputes one or two of the seven matrices for most, those behind the
attention for the last quarter of the tokens. Expected: at most a fourth of the peer's time. Seen: an eighth
(`results/allocation-cpu.json`).
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch
from comparing import Comparison, Contender, Facts, compare
from naive_greedy import NaiveErrors
from random_models import Size, random_llama, threads

from wina_core.compute.allocation.cells import Cells, Values
from wina_core.compute.allocation.gated import Subject, cells_of
from wina_core.compute.allocation.greedy import Error, corrected_steps, search
from wina_core.compute.allocation.layer_error import LayerErrors
from wina_core.specs import MethodSpec

SIZE = Size(hidden=512, intermediate=1408, layers=2, heads=8, kv_heads=2)
TOY = Size(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2)
LAYER = 1
SEQUENCE = 512
BUDGET = 0.5
STEP = 0.1
AT_MOST = 0.25


def measure(toy: bool) -> list[Comparison]:
    """Measure with two threads; raise RuntimeError if the two searches end at different plans."""
    size, sequence, count, repetitions = (TOY, 32, 1, 1) if toy else (SIZE, SEQUENCE, 2, 5)
    loaded = random_llama(size)
    subject = Subject(loaded, MethodSpec(name="teal"))
    cells = cells_of(loaded.view.layout, subject.method).in_layer(LAYER)
    tokens = torch.randint(len(loaded.tokenizer), (1, sequence), generator=torch.Generator().manual_seed(0))
    plans: dict[str, Values] = {}
    facts: dict[str, Facts] = {}  # each turn writes the same

    def searched(name: str, errors: Callable[[], NaiveErrors | LayerErrors]) -> None:
        error = errors()
        plans[name] = _search(error, cells)
        facts[name] = {"evaluations": error.evaluations}

    def contender(name: str, kind: type[NaiveErrors] | type[LayerErrors], at_most: float | None = None) -> Contender:
        errors = partial(kind, subject, cells, LAYER, tokens)
        return Contender(name, partial(nullcontext, partial(searched, name, errors)), at_most)

    naive, ours = contender("naive greedy", NaiveErrors), contender("greedy", LayerErrors, AT_MOST)
    setting: Facts = {
        **size.facts,
        "sequence": sequence,
        "budget": BUDGET,
        "step": STEP,
        "dtype": "float32",
        "threads": count,
    }
    with threads(count):
        found = compare(naive, [ours], repetitions, setting, facts)
    if plans[naive.name] != plans[ours.name]:
        raise RuntimeError(f"The searches end at different plans: {plans}")
    return [found]


def _search(error: Error, cells: Cells) -> Values:
    steps = corrected_steps(cells.blocks, cells.layout, BUDGET, STEP)
    return search(error, steps, (0.0,) * len(cells.blocks), lambda _: None)
