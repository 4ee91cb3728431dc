"""Greedy decoding on a GPU by a random model of Llama-3-8B's shapes, dense against gated, both in CUDA graphs.

Gated as with the free rotation: WINA with thresholds, one mask for q, k, v and one for gate, up. Both models are held
at once and take turns, so drift affects both.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from generating import spread
from random_models import Size, random_llama

from wina_core.compute.calibration import calibrate
from wina_core.compute.gating import attach
from wina_core.compute.latency.device import free_bytes
from wina_core.compute.latency.graphs import GraphDecoder, tokens_per_second
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter
from wina_core.specs import CalibrationSpec, MethodSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

METHOD = MethodSpec(name="wina", masks="shared", selection="threshold")
SPARSITY, WANTED = 0.5, 1.8
LLAMA_3_8B = Size(hidden=4096, intermediate=14336, layers=32, heads=32, kv_heads=8)
VOCABULARY = 128_256
_TEXT = TextSpec(source="demo:calibration", tokens=2048, sequence=512)


@dataclass(frozen=True)
class Decoding:
    """The decoded model and text."""

    size: Size = LLAMA_3_8B
    vocabulary: int = VOCABULARY
    prompt: int = 64
    tokens: int = 128
    turns: int = 7
    calibration: TextSpec = _TEXT


TOY_DECODING = Decoding(
    size=Size(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2),
    vocabulary=8192,
    prompt=8,
    tokens=4,
    turns=2,
    calibration=TextSpec(source="demo:calibration", tokens=128, sequence=64),
)


def measure_decoding(given: Decoding, device: torch.device) -> dict[str, Any]:
    """Return both models' tokens per second, their ratio by turns, the bound by bytes, and the bar; only the reason if
    two models do not fit."""
    needed, free = 2.2 * 2 * _parameters(given), free_bytes(device)
    if needed > free:
        why = f"two models need {needed / 1e9:.0f} GB, and {free / 1e9:.0f} GB are free"
        return {"not_measured": why, "bars": [_bar(f"not measured: {why}", met=False)]}
    dense = random_llama(given.size, torch.bfloat16, given.vocabulary, device)
    model = deepcopy(dense.model)
    gated = LoadedModel(dense.source, model, dense.tokenizer, view(model))
    calibration = calibrate(gated, METHOD, CalibrationSpec(text=given.calibration), NullReporter())
    prompt = torch.randint(given.vocabulary, (1, given.prompt), generator=torch.Generator().manual_seed(0)).to(device)
    plan = UniformSparsity(sparsity=SPARSITY)
    with attach(gated, METHOD, plan, calibration, kernels=True) as gates:
        decoders = [GraphDecoder(each.model, given.prompt + given.tokens) for each in (dense, gated)]
        gates.reset_counts()
        turns = [
            [tokens_per_second(decoder, prompt, given.tokens, lambda: None) for decoder in decoders]
            for _ in range(given.turns + 1)
        ][1:]
        dropped = gates.gated_sparsity
    speeds = np.array(turns)  # [turn, dense and gated]
    ratio = float(np.median(speeds[:, 1] / speeds[:, 0]))
    layers = sum(map(sum, dense.view.layout.parameters))
    head = given.vocabulary * given.size.hidden
    return {
        **given.size.facts, "vocabulary": given.vocabulary, "prompt": given.prompt, "tokens": given.tokens,
        "turns": given.turns, "dropped": dropped,
        "dense_tokens_per_second": spread(speeds[:, 0]), "gated_tokens_per_second": spread(speeds[:, 1]),
        "speed_up": ratio, "speed_up_allowed_by_bytes": (layers + head) / (layers * (1 - dropped) + head),
        "bars": [_bar(ratio, met=ratio >= WANTED)],
    }  # fmt: skip


def _bar(measured: float | str, met: bool) -> dict[str, Any]:
    return {"bar": "tokens per second over dense, Llama-3-8B, 50 %", "wanted": WANTED, "measured": measured, "met": met}


def _parameters(given: Decoding) -> int:
    size = given.size
    heads = size.hidden * size.hidden * (2 + 2 * size.kv_heads / size.heads)
    return int(size.layers * (heads + 3 * size.hidden * size.intermediate) + 2 * given.vocabulary * size.hidden)
