"""Timing of a DecodeJob: tokens per second of greedy decoding, gated against dense."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from wina_core.compute import pausable_clock
from wina_core.compute.gating import Gates, attach
from wina_core.compute.generation.compiled import CompiledModel, compile_model
from wina_core.compute.generation.fused import FusedModel, fuse
from wina_core.compute.latency.budget import (
    DENSE_SHARE,
    PeakMemory,
    Repetition,
    Repetitions,
    held_bytes,
)
from wina_core.compute.latency.device import device_of, environment_on, free_bytes
from wina_core.compute.latency.graphs import GraphDecoder, can_be_captured, decoding_times, wait
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.shape import empty_model
from wina_core.compute.models.shortcuts import shortcut_parameters
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import Reporter
from wina_core.compute.session.model_session import Session
from wina_core.errors import WinaError
from wina_core.jobs import DecodeJob, Emit, Measured
from wina_core.records import COMPILED, FUSED, DecodeRecord, SweepReport
from wina_core.specs import NO_ROTATION, TextSpec
from wina_core.specs.latency import DecodePoint, DecodeSpec, missing_points
from wina_core.specs.methods import get_method
from wina_core.specs.plans import PlanLayout, UniformSparsity, resolve_plan

_TEXT = "demo:heldout"
Compiled = CompiledModel | FusedModel | str
"""A model compiled for one sequence, its step fused on a GPU, or the reason why it is not."""


def time_decoding(job: DecodeJob, session: Session, emit: Emit, reporter: Reporter, job_id: str) -> SweepReport:
    """Measure the sparsities that are not stored yet; skip an unreachable one with its reason.

    The dense model has no rotation: it is the rotated one if the rotation is free, and a separate one if shortcuts slow
    decoding. Raises WinaError for an unknown method, a prompt beyond the model's context, no measurable sparsity, and
    too little memory for both models; Cancelled between two tokens.
    """
    spec = job.spec
    get_method(spec.method)
    environment = environment_on(device_of(spec.model.device))
    points, missing = missing_points(spec.points(), job.stored.get(environment.key, ()))
    stored = len(points) - len(missing)
    skipped: tuple[str, ...] = ()
    if missing:
        # Read off the config alone, before minutes of rotating and calibrating.
        empty = empty_model(spec.model, reporter)
        _check_context(empty.config, spec)
        requested = len(missing)
        missing, refused = _reachable(missing, view(empty).layout)
        if not missing and not stored:
            raise WinaError(" ".join(refused))
        skipped = tuple(f"{count} of {requested} points: {reason}" for reason, count in refused.items())
    if missing:
        gated = session.prepare(spec.model, spec.rotation, reporter)
        dense = _dense(gated, spec, session, reporter)
        plans = (UniformSparsity(sparsity=point.sparsity) for point in missing)
        gatings = [  # before anything is timed
            session.gating(gated, spec.rotation, spec.method, plan, spec.calibration, reporter) for plan in plans
        ]
        reporter.stage("")

        def repetitions(done: int, started: float, *, is_gated: bool, tokens: int | None = None) -> Repetitions:
            """Return those of one model at a point, in its share of the time, after so many points."""
            point, model = missing[done], "gated" if is_gated else "dense"
            begin, end = (DENSE_SHARE, 1.0) if is_gated else (0.0, DENSE_SHARE)

            def report(share: float, text: str) -> None:
                passed = done + begin + (end - begin) * share
                reporter.progress(passed, len(missing), "points", f"{point.label}: {model}, {text}")

            budget = math.inf if point.budget_seconds is None else point.budget_seconds
            return Repetitions(point, started + end * budget, tokens, reporter.check, report)

        for done, (point, (calibration, resolved)) in enumerate(zip(missing, gatings, strict=True)):
            prompt = _prompts(point, gated)
            started = pausable_clock.now()
            # On the processor, users decode the dense model by transformers.
            dense_decoder = _compiled(dense, None, point) if can_be_captured(dense.model) else ""
            dense_speeds = _speeds(dense, prompt, point, repetitions(done, started, is_gated=False), dense_decoder)
            dense_held = held_bytes(dense.model)
            with attach(gated, point.method, resolved, calibration, kernels=True) as gates:
                compiled = _compiled(gated, gates, point)
                gated.view.give_back(gated.view.embedding)  # decoding reads a few of its rows only
                turns = repetitions(done, started, is_gated=True, tokens=dense_speeds.tokens)
                with PeakMemory(gated.device) as peak:
                    gated_speeds = _speeds(gated, prompt, point, turns, compiled)
                sparsity, held = gates.gated_sparsity, held_bytes(gated.model, gates)
            record = DecodeRecord(
                point=point,
                environment=environment,
                measured_sparsity=sparsity,
                **_percentiles("", gated_speeds.decoding),
                **_percentiles("dense_", dense_speeds.decoding),
                **_percentiles("prefill_", gated_speeds.prefill),
                **_percentiles("dense_prefill_", dense_speeds.prefill),
                held_bytes=held,
                dense_held_bytes=dense_held,
                peak_bytes=peak.bytes,
                decoder=_decoders(gated, compiled, dense_decoder),
                turns=min(len(gated_speeds.decoding), len(dense_speeds.decoding)),
                timed_tokens=gated_speeds.tokens,
            )
            emit(Measured(job_id=job_id, record=record))
        reporter.progress(len(missing), len(missing), "points")
    return SweepReport(
        environment=environment, points=tuple(points), measured=len(missing), stored=stored, skipped=skipped
    )


def _check_context(config: Any, spec: DecodeSpec) -> None:
    context = getattr(config, "max_position_embeddings", None)
    if context is not None and spec.prompt_tokens + spec.new_tokens > context:
        raise WinaError(
            f"{spec.prompt_tokens} tokens of prompt and {spec.new_tokens} new ones exceed the model's context of "
            f"{context}; choose fewer."
        )


def _reachable(points: Sequence[DecodePoint], layout: PlanLayout) -> tuple[list[DecodePoint], Counter[str]]:
    """Return the points whose sparsity the method reaches, and the number of others by reason."""
    reached = []
    refused: Counter[str] = Counter()
    for point in points:
        try:
            resolve_plan(UniformSparsity(sparsity=point.sparsity), layout, point.method)
        except WinaError as error:
            refused[str(error)] += 1
        else:
            reached.append(point)
    return reached, refused


def _dense(gated: LoadedModel, spec: DecodeSpec, session: Session, reporter: Reporter) -> LoadedModel:
    if not shortcut_parameters(gated.model):
        return gated
    needed = sum(parameter.numel() * parameter.element_size() for parameter in gated.model.parameters())
    free = free_bytes(gated.device)
    if needed > free:
        raise WinaError(
            "This rotation needs shortcuts, so the dense model is measured beside the rotated one; it takes "
            f"{needed / 1e9:.1f} GB more, and {free / 1e9:.1f} GB are free: choose a rotation without shortcuts."
        )
    return session.prepare(spec.model, NO_ROTATION, reporter)


class _Speeds(NamedTuple):
    """Tokens per second of each repetition after a warm-up, over all sequences."""

    decoding: list[float]
    """New tokens per second, from the first new one to the last."""
    prefill: list[float]
    """Prompt tokens per second, from the call to the first new token."""
    tokens: int
    """New tokens of a repetition."""


def _percentiles(prefix: str, speeds: Sequence[float]) -> dict[str, Any]:
    """Return the median and the percentiles as fields of a DecodeRecord with this prefix."""
    median, p10, p90 = map(float, np.percentile(speeds, (50, 10, 90)))
    return {f"{prefix}tokens_per_second": median, f"{prefix}p10": p10, f"{prefix}p90": p90}


def _prompts(point: DecodePoint, loaded: LoadedModel) -> Tensor:
    """Return a prompt for each sequence, all from other parts of the text, int64 [batch, tokens]."""
    tokens = point.batch * point.prompt_tokens
    text = TextSpec(source=_TEXT, tokens=tokens, sequence=point.prompt_tokens)
    return read_tokens(text, loaded.tokenizer).to(loaded.device)


def _compiled(loaded: LoadedModel, gates: Gates | None, point: DecodePoint) -> Compiled:
    """Return the model compiled for the point's sequence, its step fused on a GPU, or the reason why it is not."""
    if point.batch > 1:
        return "several sequences are decoded at once"
    if can_be_captured(loaded.model):
        return fuse(loaded, gates)
    return compile_model(loaded, gates, point.prompt_tokens + point.new_tokens)


def _decoders(gated: LoadedModel, compiled: Compiled, dense: Compiled) -> str:
    """Return the decoder of the gated model, and on a GPU that of the dense one if it differs."""
    if not can_be_captured(gated.model):
        return _decoder("transformers", compiled)
    gated_decoder, plain_decoder = (_decoder("CUDA graph", decoder) for decoder in (compiled, dense))
    return gated_decoder if gated_decoder == plain_decoder else f"{gated_decoder}; dense: {plain_decoder}"


def _decoder(otherwise: str, compiled: Compiled) -> str:
    """Return the decoder of a model, with the reason if it was not the compiled model or the fused step."""
    if isinstance(compiled, str):
        return f"{otherwise}: {compiled}"
    return COMPILED if isinstance(compiled, CompiledModel) else FUSED


def _speeds(loaded: LoadedModel, prompt: Tensor, point: DecodePoint, turns: Repetitions, compiled: Compiled) -> _Speeds:
    """Time greedy decoding after prompts [batch, tokens]: by the compiled model, by steps in a CUDA graph, or by
    transformers' generate(), as users do."""
    try:
        repetitions = turns.timed(_repetition(loaded, prompt, point, turns, compiled))
    finally:
        if isinstance(compiled, FusedModel):
            compiled.restore()
    return _Speeds(
        [len(prompt) * (repetition.tokens - 1) / (repetition.end - repetition.first) for repetition in repetitions],
        [prompt.numel() / (repetition.first - repetition.start) for repetition in repetitions],
        min(repetition.tokens for repetition in repetitions),
    )


def _repetition(
    loaded: LoadedModel, prompt: Tensor, point: DecodePoint, turns: Repetitions, compiled: Compiled
) -> Callable[[int], Repetition]:
    """Return the function that times one repetition of a number of new tokens."""
    if isinstance(compiled, CompiledModel):
        return partial(_by_calls, compiled, prompt, turns)
    if not can_be_captured(loaded.model):
        return partial(_by_generate, loaded, prompt, turns)
    fused = compiled if isinstance(compiled, FusedModel) else None
    decoder = GraphDecoder(loaded.model, prompt.shape[1] + point.new_tokens, len(prompt), fused)
    return partial(_by_graph, decoder, prompt, turns)


def _by_calls(compiled: CompiledModel, prompt: Tensor, turns: Repetitions, count: int) -> Repetition:
    start = pausable_clock.now()
    tokens = compiled.greedy(prompt)
    next(tokens)
    first = pausable_clock.now()
    done = 1
    while done < count and not turns.is_over(done):
        next(tokens)
        turns.check()
        done += 1
    return Repetition(start, first, pausable_clock.now(), done)


def _by_graph(decoder: GraphDecoder, prompt: Tensor, turns: Repetitions, count: int) -> Repetition:
    # Never ended early: the processor is far ahead of the device.
    return Repetition(*decoding_times(decoder, prompt, count, turns.check), count)


def _by_generate(loaded: LoadedModel, prompt: Tensor, turns: Repetitions, count: int) -> Repetition:
    clock = _Clock(turns, loaded.device)
    start = pausable_clock.now()
    loaded.model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        min_new_tokens=count,
        max_new_tokens=count,
        pad_token_id=0,  # never used: all sequences have one length
        stopping_criteria=StoppingCriteriaList([clock]),
    )
    return Repetition(start, clock.times[0], clock.times[-1], len(clock.times))


class _Clock(StoppingCriteria):
    """Stopping criterion that records each token's time, checks for cancellation, and stops when time is over."""

    def __init__(self, turns: Repetitions, device: torch.device) -> None:
        self.times: list[float] = []
        self._turns = turns
        self._device = device

    def __call__(self, input_ids: Tensor, scores: Tensor, **_: Any) -> Tensor:  # noqa: ARG002 - transformers' signature
        wait(self._device)
        self.times.append(pausable_clock.now())
        self._turns.check()
        over = self._turns.is_over(len(self.times))
        return torch.full((len(input_ids),), over, dtype=torch.bool, device=input_ids.device)
