"""Timing of a DecodeJob: tokens per second of greedy decoding, gated against dense."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from wina_core.compute.gating import Gates, attach
from wina_core.compute.generation.compiled import CompiledModel, compile_model
from wina_core.compute.latency.device import device_of, environment_on, free_bytes
from wina_core.compute.latency.graphs import GraphDecoder, Times, can_be_captured, decoding_times, wait
from wina_core.compute.latency.memory import PeakMemory, held_bytes
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.shape import empty_model
from wina_core.compute.models.shortcuts import shortcut_parameters
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import Reporter
from wina_core.compute.session.model_session import Session
from wina_core.engine.protocol import DecodeJob, Emit, Measured
from wina_core.errors import Cancelled, WinaError
from wina_core.masks.targets import resolve_plan
from wina_core.methods import get_method
from wina_core.records import COMPILED, DecodeRecord, SweepReport
from wina_core.specs import NO_ROTATION, TextSpec
from wina_core.specs.latency import DecodePoint, DecodeSpec, missing_points
from wina_core.specs.plans import PlanLayout, UniformSparsity

_TEXT = "demo:heldout"


def time_decoding(job: DecodeJob, session: Session, emit: Emit, reporter: Reporter, job_id: str) -> SweepReport:
    """Measure the sparsities that are not stored yet; skip an unreachable one with its reason.

    The dense model has no rotation: it is the rotated one if the rotation is free, and a separate one if shortcuts slow
    decoding. Raises WinaError for an unknown method, a prompt beyond the model's context, no measurable sparsity, and
    too little memory for both models; Cancelled between two tokens, and after a point if the job is released.
    """
    spec = job.spec
    get_method(spec.method)
    here = environment_on(device_of(spec.model.device))
    points, wanted = missing_points(spec.points(), job.stored.get(here.key, ()))
    stored = len(points) - len(wanted)
    skipped: tuple[str, ...] = ()
    if wanted:
        # Read off the config alone, before minutes of rotating and calibrating.
        empty = empty_model(spec.model, reporter)
        _check_context(empty.config, spec)
        asked = len(wanted)
        wanted, refused = _reachable(wanted, view(empty).layout)
        if not wanted and not stored:
            raise WinaError(" ".join(refused))
        skipped = tuple(f"{count} of {asked} points: {reason}" for reason, count in refused.items())
    if wanted:
        gated = session.prepare(spec.model, spec.rotation, reporter)
        dense = _dense(gated, spec, session, reporter)
        plans = [UniformSparsity(sparsity=point.sparsity) for point in wanted]
        found = [  # before anything is timed
            session.gating(gated, spec.rotation, spec.method, plan, spec.calibration, reporter) for plan in plans
        ]
        for index, (point, plan, (calibration, corrected)) in enumerate(zip(wanted, plans, found, strict=True)):
            stage = _Stage(reporter, point, index, len(wanted))
            prompt = _prompts(point, gated)
            beside, dense_held = _speeds(dense, prompt, point, stage), held_bytes(dense.model)
            with attach(gated, point.method, plan, calibration, kernels=True, corrected=corrected) as gates:
                compiled = _compiled(gated, gates, point)
                with PeakMemory(gated.device) as peak:
                    own = _speeds(gated, prompt, point, stage, compiled)
                sparsity, held = gates.gated_sparsity, held_bytes(gated.model, gates)
            record = DecodeRecord(
                point=point,
                environment=here,
                measured_sparsity=sparsity,
                **_named(own.decoding, "tokens_per_second", "p10", "p90"),
                **_named(beside.decoding, "dense_tokens_per_second", "dense_p10", "dense_p90"),
                **_named(own.prefill, "prefill_tokens_per_second", "prefill_p10", "prefill_p90"),
                **_named(beside.prefill, "dense_prefill_tokens_per_second", "dense_prefill_p10", "dense_prefill_p90"),
                held_bytes=held,
                dense_held_bytes=dense_held,
                peak_bytes=peak.bytes,
                decoder=_decoder(gated, compiled),
            )
            emit(Measured(job_id=job_id, record=record))
            if reporter.released and index + 1 < len(wanted):
                raise Cancelled
    return SweepReport(environment=here, points=tuple(points), measured=len(wanted), stored=stored, skipped=skipped)


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
    """From the first new token to the last."""
    prefill: list[float]
    """Of the prompts, from the call to the first new token."""


def _named(speeds: Sequence[float], *names: str) -> dict[str, Any]:
    """Return median, p10 and p90 by these names."""
    return dict(zip(names, map(float, np.percentile(speeds, (50, 10, 90))), strict=True))


def _prompts(point: DecodePoint, loaded: LoadedModel) -> Tensor:
    """Return a prompt for each sequence, all from other parts of the text, int64 [batch, tokens]."""
    tokens = point.batch * point.prompt_tokens
    text = TextSpec(source=_TEXT, tokens=tokens, sequence=point.prompt_tokens)
    return read_tokens(text, loaded.tokenizer).to(loaded.device)


def _compiled(gated: LoadedModel, gates: Gates, point: DecodePoint) -> CompiledModel | str:
    """Return the gated model compiled for the point's sequence, or the reason why it is not."""
    if point.batch > 1:
        return "several sequences are decoded at once"
    return compile_model(gated, gates, point.prompt_tokens + point.new_tokens)


def _decoder(gated: LoadedModel, compiled: CompiledModel | str) -> str:
    """Return what decoded, and where it was not the compiled model, why."""
    if isinstance(compiled, CompiledModel):
        return COMPILED
    return f"{'CUDA graph' if can_be_captured(gated.model) else 'transformers'}: {compiled}"


def _speeds(
    loaded: LoadedModel, prompt: Tensor, point: DecodePoint, stage: "_Stage", compiled: CompiledModel | str = ""
) -> _Speeds:
    """Time greedy decoding after prompts [batch, tokens]: by the compiled model, by steps in a CUDA graph, or by
    transformers' generate(), as users do."""
    if isinstance(compiled, CompiledModel):
        times = _by_calls(compiled, prompt, point, stage)
    else:
        times = (_by_graph if can_be_captured(loaded.model) else _by_generate)(loaded, prompt, point, stage)
    return _Speeds(
        [len(prompt) * (point.new_tokens - 1) / (end - first) for _, first, end in times[1:]],
        [prompt.numel() / (first - start) for start, first, _ in times[1:]],
    )


def _by_calls(compiled: CompiledModel, prompt: Tensor, point: DecodePoint, stage: "_Stage") -> list[Times]:
    times = []
    for _ in range(1 + point.repetitions):
        start = time.perf_counter()
        tokens = compiled.greedy(prompt)
        next(tokens)
        first = time.perf_counter()
        for _ in range(point.new_tokens - 1):
            next(tokens)
            stage.check()
        times.append((start, first, time.perf_counter()))
        stage.repetition()
    return times


def _by_graph(loaded: LoadedModel, prompt: Tensor, point: DecodePoint, stage: "_Stage") -> list[Times]:
    decoder = GraphDecoder(loaded.model, prompt.shape[1] + point.new_tokens, len(prompt))
    times = []
    for _ in range(1 + point.repetitions):
        times.append(decoding_times(decoder, prompt, point.new_tokens, stage.check))
        stage.repetition()
    return times


def _by_generate(loaded: LoadedModel, prompt: Tensor, point: DecodePoint, stage: "_Stage") -> list[Times]:
    times: list[Times] = []
    for _ in range(1 + point.repetitions):
        clock = _Clock(stage, loaded.device)
        start = time.perf_counter()
        loaded.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            min_new_tokens=point.new_tokens,
            max_new_tokens=point.new_tokens,
            pad_token_id=0,  # never used: all sequences have one length
            stopping_criteria=StoppingCriteriaList([clock]),
        )
        times.append((start, clock.times[0], clock.times[-1]))
        stage.repetition()
    return times


class _Clock(StoppingCriteria):
    """Stopping criterion that records each token's time and checks for cancellation; it never stops."""

    def __init__(self, stage: "_Stage", device: torch.device) -> None:
        self.times: list[float] = []
        self._stage = stage
        self._device = device

    def __call__(self, input_ids: Tensor, scores: Tensor, **_: Any) -> Tensor:  # noqa: ARG002 - transformers' signature
        wait(self._device)
        self.times.append(time.perf_counter())
        self._stage.check()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class _Stage:
    """Progress of one point's share of the job."""

    def __init__(self, reporter: Reporter, point: DecodePoint, finished: int, total: int) -> None:
        self._reporter = reporter
        batch = f", batch {point.batch}" if point.batch > 1 else ""
        self._label = f"{point.configuration.label}, {100 * point.sparsity:.4g} %{batch}"
        self._finished = finished
        self._total = total
        self._repetitions = 2 * (1 + point.repetitions)
        self._done = 0
        self._tell()

    def repetition(self) -> None:
        """Count one repetition of the dense or the gated model."""
        self._done += 1
        self._tell()

    def check(self) -> None:
        self._reporter.check()

    def _tell(self) -> None:
        done = self._finished + self._done / self._repetitions
        self._reporter.progress(done, self._total, "points", self._label)
