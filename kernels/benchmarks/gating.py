"""The evaluation's forward pass through gates, against the same model without them, on a random Llama of hidden size
512, every token gated at 50 % by WINA.

Gating at evaluation saves nothing: it multiplies with the masked input. It costs scores, masks and products for each of
a layer's four inputs, or for each of the seven matrices with separate masks. Expected: at most 1.15 times dense by
threshold; at most 1.5 times by top-k, which partitions every token's scores. In bfloat16 the matrices may be faster, so
gates weigh more. Seen (`results/gating-cpu.json`): Python threads gained nothing beside torch's (1.17 to 1.20 with
separate masks); compiled loops on torch's threads gave 1.13 to 1.15.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import get_args

import torch
from comparing import Comparison, Contender, Facts, compare
from random_models import Size, random_llama, threads

from wina_core.compute.calibration import calibrate
from wina_core.compute.gating import attach
from wina_core.compute.gating.gates import Gates
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.specs import CalibrationSpec, MethodSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

SIZE = Size(hidden=512, intermediate=1408, layers=8, heads=8, kv_heads=4)
TOY = Size(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2)
ROWS, SEQUENCE = 4, 256
SPARSITY = 0.5
AT_MOST = {"threshold": 1.15, "topk": 1.5}
MASKS = get_args(MethodSpec.model_fields["masks"].annotation)


def measure(toy: bool) -> list[Comparison]:
    """Measure in float32 and bfloat16, with one thread and with two."""
    size, repetitions, sequence, counts = (TOY, 1, 16, (1,)) if toy else (SIZE, 5, SEQUENCE, (1, 2))
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        loaded = random_llama(size, dtype)
        tokens = read_tokens(
            TextSpec(source="demo:heldout", tokens=ROWS * sequence, sequence=sequence), loaded.tokenizer
        )
        plan = UniformSparsity(sparsity=SPARSITY)
        text = CalibrationSpec(text=TextSpec(tokens=4 * sequence, sequence=sequence))
        gated = []
        for selection, at_most in AT_MOST.items():
            for masks in MASKS:
                method = MethodSpec(name="wina", selection=selection, masks=masks)
                calibration = calibrate(loaded, method, text, NullReporter()) if selection == "threshold" else None
                gates = partial(attach, loaded, method, plan, calibration)
                forward = partial(_forward, loaded, tokens, gates)
                gated.append(Contender(f"{selection}, {masks} masks", forward, at_most))
        dense = Contender("dense", partial(_forward, loaded, tokens))
        for count in counts:
            with threads(count):
                setting: Facts = {
                    **size.facts,
                    "batch": ROWS,
                    "sequence": sequence,
                    "sparsity": SPARSITY,
                    "dtype": str(dtype).removeprefix("torch."),
                    "threads": count,
                }
                found.append(compare(dense, gated, repetitions, setting))
    return found


@contextmanager
def _forward(loaded: LoadedModel, tokens: torch.Tensor, gates: partial[Gates] | None = None) -> Iterator[partial[None]]:
    forward = partial(_logits, loaded, tokens)
    if gates is None:
        yield forward
    else:
        with gates():
            yield forward


@torch.no_grad()
def _logits(loaded: LoadedModel, tokens: torch.Tensor) -> None:
    loaded.model(tokens, use_cache=False)
