"""Greedy decoding on a GPU by a random model of Llama-3-8B's shapes, dense and gated, by transformers' step and by the
fused one, all in CUDA graphs.

Gated as with the free rotation: WINA with thresholds, one mask for q, k, v and one for gate, up. Both models are held
at once and take turns, so drift affects all.

Beside it, the tokens per second of measuring fidelity: every row passes the dense and the gated model of 8 B.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from comparing import spread
from random_models import Size, random_llama

from wina_core.compute.calibration import calibrate
from wina_core.compute.evaluation.fidelity import measure_fidelity
from wina_core.compute.gating import attach
from wina_core.compute.generation.fused import FusedModel, fuse
from wina_core.compute.latency.device import free_bytes
from wina_core.compute.latency.graphs import GraphDecoder, tokens_per_second
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter
from wina_core.specs import CalibrationSpec, MethodSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

if TYPE_CHECKING:
    from gpu import Budget, GpuMachine

METHOD = MethodSpec(name="wina", masks="shared", selection="threshold")
SPARSITY, WANTED = 0.5, 1.8
LLAMA_3_8B = Size(hidden=4096, intermediate=14336, layers=32, heads=32, kv_heads=8)
VOCABULARY = 128_256
_TEXT = TextSpec(source="demo:calibration", tokens=2048, sequence=512)


_FIDELITY_TURNS, _FIDELITY_BATCH = 5, 8


@dataclass(frozen=True)
class MeasuredDecoding:
    """The decoded model and text."""

    size: Size = LLAMA_3_8B
    vocabulary: int = VOCABULARY
    prompt: int = 64
    tokens: int = 128
    turns: int = 7
    calibration: TextSpec = _TEXT


DECODING = MeasuredDecoding()
TOY_DECODING = MeasuredDecoding(
    size=Size(hidden=32, intermediate=64, layers=1, heads=4, kv_heads=2),
    vocabulary=8192,
    prompt=8,
    tokens=3,
    turns=2,
    calibration=TextSpec(source="demo:calibration", tokens=128, sequence=64),
)


def measure(toy: bool, machine: GpuMachine, budget: Budget) -> Iterator[dict[str, Any]]:
    """Yield the tokens per second of all ways so far after each turn, ratios by turns, and the bound by bytes."""
    setting, device = TOY_DECODING if toy else DECODING, machine.device
    check_room(setting, 2.2, device)
    dense = random_llama(setting.size, torch.bfloat16, setting.vocabulary, device)
    model = deepcopy(dense.model)
    gated = LoadedModel(dense.source, model, dense.tokenizer, view(model))
    calibration = calibrate(gated, METHOD, CalibrationSpec(text=setting.calibration), NullReporter())
    prompt = torch.randint(setting.vocabulary, (1, setting.prompt), generator=torch.Generator().manual_seed(0)).to(
        device
    )
    with attach(gated, METHOD, UniformSparsity(sparsity=SPARSITY), calibration, kernels=True) as gates:
        capacity = setting.prompt + setting.tokens
        # Fused before anything is captured: fusing moves weights, and a graph keeps their addresses.
        models = {"dense, fused": fuse(dense, None), "gated, fused": fuse(gated, gates)}
        reasons = [f"{name}: {reason}" for name, reason in models.items() if isinstance(reason, str)]
        ways = {name: GraphDecoder(loaded.model, capacity) for name, loaded in (("dense", dense), ("gated", gated))}
        for speeds in _turns(ways, prompt, setting, budget.one_of(4)):  # first, in case a fused step fails
            yield _summary(setting, list(ways), speeds, gates.gated_sparsity)
        fused = {name: GraphDecoder(fused_model.loaded.model, capacity, fused=fused_model)
                 for name, fused_model in models.items() if isinstance(fused_model, FusedModel)}  # fmt: skip
        agreement = {name: _agreement(ways[name.partition(",")[0]], decoder, prompt, setting.tokens)
                     for name, decoder in fused.items()}  # fmt: skip
        ways |= fused
        gates.reset_counts()
        for speeds in _turns(ways, prompt, setting, budget):
            summary = _summary(setting, list(ways), speeds, gates.gated_sparsity)
            yield {**summary, "not_fused": reasons, "tokens_that_agree": agreement}


def _turns(
    ways: Mapping[str, GraphDecoder], prompt: torch.Tensor, setting: MeasuredDecoding, budget: Budget
) -> Iterator[np.ndarray[Any, Any]]:
    """Yield tokens per second [turn, way] so far after each turn but the first, which warms up."""
    turns: list[list[float]] = []
    for turn in budget.turns(setting.turns + 1):
        speeds = [tokens_per_second(decoder, prompt, setting.tokens, lambda: None) for decoder in ways.values()]
        if turn:
            turns.append(speeds)
            yield np.array(turns)


def _agreement(one: GraphDecoder, other: GraphDecoder, prompt: torch.Tensor, count: int) -> float:
    """Return the fraction of equal tokens before the first that differs, which rounding may cause."""
    pairs = zip(one.tokens(prompt, count), other.tokens(prompt, count), strict=True)
    equal = [bool((a == b).all()) for a, b in pairs]
    return (equal.index(False) if False in equal else count) / count


def _summary(
    setting: MeasuredDecoding, names: list[str], speeds: np.ndarray[Any, Any], dropped: float
) -> dict[str, Any]:
    """Return medians, and the speed-up of the best gated way over the best dense one; speeds: [turn, way]."""
    medians = dict(zip(names, np.median(speeds, axis=0), strict=True))
    best = [max((name for name in names if name.startswith(kind)), key=medians.__getitem__)
            for kind in ("dense", "gated")]  # fmt: skip
    dense, gated = (speeds[:, names.index(name)] for name in best)
    ratio = float(np.median(gated / dense))
    layers, head = _parameters(setting)
    return {
        **setting.size.facts, "vocabulary": setting.vocabulary, "prompt": setting.prompt, "tokens": setting.tokens,
        "turns": len(speeds), "dropped": dropped,
        "tokens_per_second": {name: asdict(spread(speeds[:, at])) for at, name in enumerate(names)},
        "not_fused": [], "best": best, "speed_up": ratio,
        "speed_up_allowed_by_bytes": (layers + head) / (layers * (1 - dropped) + head),
        "bars": [{"bar": "tokens per second over dense, Llama-3-8B, 50 %", "wanted": WANTED, "measured": ratio,
                  "missed": [], "met": ratio >= WANTED}],
    }  # fmt: skip


def measure_evaluation(toy: bool, machine: GpuMachine, budget: Budget) -> Iterator[dict[str, Any]]:
    """Yield the speed so far after each turn; raises SystemExit if the model does not fit."""
    setting, device = TOY_DECODING if toy else DECODING, machine.device
    check_room(setting, 1.3, device)
    loaded = random_llama(setting.size, torch.bfloat16, setting.vocabulary, device)
    calibration = calibrate(loaded, METHOD, CalibrationSpec(text=setting.calibration), NullReporter())
    tokens, sequence = (64, 32) if toy else (16384, 512)
    text = TextSpec(source="demo:heldout", tokens=tokens, sequence=sequence)
    speeds: list[float] = []
    with attach(loaded, METHOD, UniformSparsity(sparsity=SPARSITY), calibration) as gates:
        for turn in budget.turns(_FIDELITY_TURNS + 1):
            start = time.perf_counter()
            metrics = measure_fidelity(loaded, gates, text, _FIDELITY_BATCH, NullReporter())
            if turn == 0:
                continue  # warms up
            speeds.append(tokens / (time.perf_counter() - start))
            kl = next(metric.value for metric in metrics if metric.metric == "kl")
            yield {"tokens": tokens, "sequence": sequence, "batch": _FIDELITY_BATCH, "turns": len(speeds), "kl": kl,
                   "tokens_per_second": asdict(spread(np.array(speeds)))}  # fmt: skip


def check_room(setting: MeasuredDecoding, models: float, device: torch.device) -> None:
    """Raise SystemExit unless the device's memory holds this number of models."""
    layers, head = _parameters(setting)
    # Two bytes a weight; embedding and head are untied, so that the head's size counts twice.
    needed, free = models * 2 * (layers + 2 * head), free_bytes(device)
    if needed > free:
        raise SystemExit(f"The models need {needed / 1e9:.0f} GB, and {free / 1e9:.0f} GB are free.")


def _parameters(setting: MeasuredDecoding) -> tuple[int, int]:
    """Return the weights of all layers and of the head."""
    size = setting.size
    # q and o are square; k and v have the outputs of kv_heads alone.
    heads = size.hidden * size.hidden * (2 + 2 * size.kv_heads / size.heads)
    return int(size.layers * (heads + 3 * size.hidden * size.intermediate)), setting.vocabulary * size.hidden
