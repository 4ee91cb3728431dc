"""The forward pass of prompts and batches through gates and their kernels, against the same model without gates, of the
same width, on a random Llama of hidden size 2048 in bfloat16.

Several rows together keep almost every input, so gates save little here; they should cost nothing. But weights of 16
bits lie transposed for them. Expected: at most 1.05 times the dense time at 0 %, which is all kernels, and 1.15 times
at 50 % by threshold, with the masks.

Seen with PyTorch's products alone, in 16 bits: 1.5 to 2.1 times as long for 16 to 64 tokens, 1.1 for 256 and more, and
1.5 for batches of 8. With a native kernel for such weights (`results/prompts-cpu.json`): 0.87 to 1.00 at 0 % in 16,
0.66 to 1.05 in 4 bits. Missed in 8 bits: 1.08 to 1.16 for batches of 2 to 8 at 0 %, and 1.16 for 8 at 50 %. Other runs
had up to 1.12 in 4 bits as well, for the memory's speed changes within a run.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from comparing import Comparison, Contender, compare
from random_models import Size, random_llama, threads
from torch import Tensor

from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantize import quantize
from wina_core.compute.reporter import NullReporter
from wina_core.specs import CalibrationSpec, MethodSpec, QuantizationSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

SIZE = Size(hidden=2048, intermediate=8192, layers=2, heads=32, kv_heads=8)
TOY = Size(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2)
QUANTIZATIONS = {
    16: None,
    8: QuantizationSpec(quantizer="rtn", bits=8, group=128),
    4: QuantizationSpec(quantizer="rtn", bits=4, group=64),
}
INPUTS = (*((batch, 1) for batch in (2, 4, 8)), *((1, tokens) for tokens in (16, 64, 256, 1024)))
"""Batch and tokens of each."""
AT_MOST = {0.0: 1.05, 0.5: 1.15}
METHOD = MethodSpec(name="wina", masks="shared", selection="threshold")


def measure(toy: bool) -> list[Comparison]:
    """Measure each width with two threads."""
    size, inputs, repetitions, count = (TOY, INPUTS[:4], 1, 1) if toy else (SIZE, INPUTS, 9, 2)
    found = []
    with threads(count):
        for bits, quantization in QUANTIZATIONS.items():
            loaded = random_llama(size, torch.bfloat16)
            if quantization is not None:
                quantize(loaded, quantization, NullReporter())
            text = CalibrationSpec(text=TextSpec(tokens=256, sequence=64))
            calibration = calibrate(loaded, METHOD, text, NullReporter())
            for batch, tokens in inputs:
                setting = {"bits": bits, "hidden": size.hidden, "batch": batch, "tokens": tokens, "threads": count}
                given = torch.randint(
                    len(loaded.tokenizer), (batch, tokens), generator=torch.Generator().manual_seed(0)
                )
                gated = [
                    Contender(f"{dropped:.0%} dropped", partial(_gated, loaded, dropped, calibration, given), at_most)
                    for dropped, at_most in AT_MOST.items()
                ]
                dense = Contender("dense", partial(nullcontext, partial(_forward, loaded, given)))
                found.append(compare(dense, gated, repetitions, dict(setting)))
    return found


@contextmanager
def _gated(loaded: LoadedModel, dropped: float, calibration: Calibration, tokens: Tensor) -> Iterator[partial[None]]:
    with attach(loaded, METHOD, UniformSparsity(sparsity=dropped), calibration, kernels=True):
        _forward(loaded, tokens)  # whatever is compiled or chosen at first use
        yield partial(_forward, loaded, tokens)


@torch.inference_mode()
def _forward(loaded: LoadedModel, tokens: Tensor) -> None:
    loaded.model(tokens, use_cache=False, logits_to_keep=1)
