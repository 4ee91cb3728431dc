"""Calibration, against a plain forward pass over the same tokens, on a random Llama of hidden size 512.

Histograms take a few elementwise passes over every input; error curves multiply each matrix once for every sampled
sparsity, with 256 tokens. Expected: at most twice the plain forward over 8,192 tokens, a sixth of the default text.
"""

from contextlib import nullcontext
from functools import partial

import torch
from comparing import Comparison, Contender, Facts, compare
from random_models import Size, random_llama, threads

from wina_core.compute.calibration import calibrate
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.specs import CalibrationSpec, MethodSpec, TextSpec

SIZE = Size(hidden=512, intermediate=1408, layers=8, heads=8, kv_heads=4)
TOY = Size(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2)
TOKENS, SEQUENCE = 8192, 512
BATCH_TOKENS = 4096
METHOD = MethodSpec(name="wina")
"""One histogram for each matrix; methods whose matrices share scores need fewer."""
AT_MOST = 2.0


def measure(toy: bool) -> list[Comparison]:
    """Measure with one thread and with two."""
    size, repetitions, tokens, counts = (TOY, 1, SEQUENCE, (1,)) if toy else (SIZE, 3, TOKENS, (1, 2))
    loaded = random_llama(size)
    text = TextSpec(source="demo:calibration", tokens=tokens, sequence=SEQUENCE)
    plain = Contender("plain forward", partial(nullcontext, partial(_forward, loaded, text)))
    ours = Contender("calibrate wina", partial(nullcontext, partial(_calibrate, loaded, text)), AT_MOST)
    found = []
    for count in counts:
        with threads(count):
            setting: Facts = {
                **size.facts,
                "tokens": tokens,
                "sequence": SEQUENCE,
                "dtype": "float32",
                "threads": count,
            }
            found.append(compare(plain, [ours], repetitions, setting))
    return found


def _calibrate(loaded: LoadedModel, text: TextSpec) -> None:
    calibrate(loaded, METHOD, CalibrationSpec(text=text), NullReporter())


@torch.no_grad()
def _forward(loaded: LoadedModel, text: TextSpec) -> None:
    """Read the text and run the decoder on it, in batches as large as the calibration's, without logits."""
    rows = read_tokens(text, loaded.tokenizer)
    for batch in torch.split(rows, max(1, BATCH_TOKENS // SEQUENCE)):
        loaded.model(batch, use_cache=False, logits_to_keep=1)
