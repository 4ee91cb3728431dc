"""Tokens per second of measuring fidelity on a GPU: every row passes the dense and the gated model of 8 B."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from generating import spread
from gpu_budget import Budget
from gpu_decoding import DECODING, METHOD, SPARSITY, TOY_DECODING, check_room
from gpu_machine import Machine
from random_models import random_llama

from wina_core.compute.calibration import calibrate
from wina_core.compute.evaluation.fidelity import measure_fidelity
from wina_core.compute.gating import attach
from wina_core.compute.reporter import NullReporter
from wina_core.specs import CalibrationSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

_TURNS, _BATCH = 5, 8


def measure(toy: bool, machine: Machine, budget: Budget) -> Iterator[dict[str, Any]]:
    """Yield the speed so far after each turn; raises SystemExit if the model does not fit."""
    given, device = TOY_DECODING if toy else DECODING, machine.device
    check_room(given, 1.3, device)
    loaded = random_llama(given.size, torch.bfloat16, given.vocabulary, device)
    calibration = calibrate(loaded, METHOD, CalibrationSpec(text=given.calibration), NullReporter())
    tokens, sequence = (64, 32) if toy else (16384, 512)
    text = TextSpec(source="demo:heldout", tokens=tokens, sequence=sequence)
    speeds: list[float] = []
    with attach(loaded, METHOD, UniformSparsity(sparsity=SPARSITY), calibration) as gates:
        for turn in budget.turns(_TURNS + 1):
            begun = time.perf_counter()
            metrics = measure_fidelity(loaded, gates, text, _BATCH, NullReporter())
            if turn == 0:
                continue  # warms up
            speeds.append(tokens / (time.perf_counter() - begun))
            kl = next(metric.value for metric in metrics if metric.metric == "kl")
            yield {"tokens": tokens, "sequence": sequence, "batch": _BATCH, "turns": len(speeds), "kl": kl,
                   "tokens_per_second": spread(np.array(speeds))}  # fmt: skip
