"""Completions of one prompt, token by token, the dense one beside gated ones.

The dense side and the first gated one take turns, so that both grow together. Each pass is timed alone, from its input
to its logits on the same weights in memory; the comparison of the two models is not part of any time.
"""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from wina_core.compute.gating import Gates, attach
from wina_core.compute.generation.compiled import CompiledModel, compile_model
from wina_core.compute.generation.reader import Pieces, SequenceReader, choose
from wina_core.compute.hooks import cancellable
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import divergences
from wina_core.compute.models.shortcuts import shortcut_parameters
from wina_core.compute.render_limits import render_chat
from wina_core.compute.reporter import Reporter
from wina_core.compute.session.model_session import Session
from wina_core.errors import WinaError
from wina_core.jobs import CompletionFinished, Emit, GenerateJob, Token
from wina_core.records.completions import LEAST_TOKENS, CompletionEnd, CompletionToken
from wina_core.specs import NO_ROTATION
from wina_core.specs.methods import get_method

_log = logging.getLogger(__name__)
_CONTEXT = 8
"""Tokens of the prompt before the first decoded one; its spaces depend on them."""


def generate(job: GenerateJob, session: Session, emit: Emit, reporter: Reporter, job_id: str) -> None:
    """Complete the prompt by every configuration, each compared with the dense model (`Token.divergence`).

    The dense model is the gated one with its gates switched off, or a model of its own where the rotation needs
    shortcuts. Raises WinaError for an unknown method, a missing chat template or one that refuses the prompt, more
    tokens than the model's context, unreachable targets, and logits that are not numbers; Cancelled within a pass,
    after a CompletionFinished for each side.
    """
    for configuration in job.configurations:
        get_method(configuration.method)
    dense = [number for number, configuration in enumerate(job.configurations) if configuration.is_dense]
    gated = [number for number, configuration in enumerate(job.configurations) if not configuration.is_dense]
    turns = _Turns(job, emit, reporter, job_id)
    if not gated:
        loaded = session.prepare(job.model, NO_ROTATION, reporter)
        prompt = _prompt(job, loaded)
        compiled = _compiled(loaded, None, job, prompt)
        readers = [SequenceReader(loaded, None, gated=False, compiled=compiled) for _ in dense]
        sides = [
            _Side(side_number, job, loaded, prompt, reader) for side_number, reader in zip(dense, readers, strict=True)
        ]
        turns.take(sides, [loaded])
    for number in gated:
        configuration = job.configurations[number]
        loaded = session.prepare(job.model, configuration.rotation, reporter)
        prompt = _prompt(job, loaded)
        calibration, resolved = session.gating(
            loaded,
            configuration.rotation,
            configuration.method,
            configuration.plan,
            configuration.calibration,
            reporter,
        )
        plain = session.prepare(job.model, NO_ROTATION, reporter) if shortcut_parameters(loaded.model) else loaded
        with attach(loaded, configuration.method, resolved, calibration, kernels=True) as gates:
            switch = gates if plain is loaded else None
            compiled = _compiled(loaded, gates, job, prompt)  # None with shortcuts: then the dense model is not, either
            sides = [
                _Side(side_number, job, plain, prompt, SequenceReader(plain, switch, gated=False, compiled=compiled))
                for side_number in dense
            ]
            reader = SequenceReader(loaded, gates, gated=True, compiled=compiled)
            reference = SequenceReader(plain, switch, gated=False, compiled=compiled)
            sides.append(_Side(number, job, loaded, prompt, reader, reference, gates))
            turns.take(sides, [loaded] if plain is loaded else [loaded, plain])
        dense = []  # the dense completion has grown beside the first gated one


def _compiled(
    loaded: LoadedModel, gates: Gates | None, job: GenerateJob, prompt: Sequence[int]
) -> CompiledModel | None:
    """Return the model compiled for this completion; None, with the reason in the log, where it is not."""
    compiled = compile_model(loaded, gates, len(prompt) + job.new_tokens)
    if isinstance(compiled, CompiledModel):
        return compiled
    _log.info("Tokens are decoded by transformers: %s.", compiled)
    return None


def _prompt(job: GenerateJob, loaded: LoadedModel) -> list[int]:
    """Return the prompt's token ids; raise WinaError where they and the completion exceed the context."""
    tokenizer = loaded.tokenizer
    if job.chat:
        if not tokenizer.chat_template:
            raise WinaError("This model's tokenizer has no chat template; send the prompt as plain text.")
        message = [{"role": "user", "content": job.prompt}]
        render = partial(tokenizer.apply_chat_template, message, add_generation_prompt=True, tokenize=False)
        text = render_chat(render, len(job.prompt), "send the prompt as plain text")
        # The template has written the special tokens, BOS among them.
        ids: list[int] = tokenizer(text, add_special_tokens=False).input_ids
    else:
        ids = tokenizer(job.prompt).input_ids
    if not ids:
        raise WinaError("The prompt has no tokens; write some text.")
    context = getattr(loaded.model.config, "max_position_embeddings", None)
    if context is not None and len(ids) + job.new_tokens > context:
        room = context - len(ids)
        advice = f"request {room:,} at most, or shorten the prompt" if room > 0 else "shorten the prompt"
        raise WinaError(
            f"The prompt has {len(ids):,} tokens and {job.new_tokens:,} new ones are requested, but the model's "
            f"context has {context:,}; {advice}."
        )
    return ids


def _stops(loaded: LoadedModel) -> frozenset[int]:
    """Return the ids of tokens that end a completion, by all configs that may name them."""
    named = (
        getattr(loaded.model.generation_config, "eos_token_id", None),
        loaded.model.config.eos_token_id,
        loaded.tokenizer.eos_token_id,
    )
    lists = (listed if isinstance(listed, list) else [listed] for listed in named)
    return frozenset(token for listed in lists for token in listed if token is not None)


class _Side:
    """One growing completion by `reader`'s model; a gated one has the dense `reference` and its gates."""

    def __init__(
        self,
        number: int,
        job: GenerateJob,
        loaded: LoadedModel,
        prompt: Sequence[int],
        reader: SequenceReader,
        reference: SequenceReader | None = None,
        gates: Gates | None = None,
    ) -> None:
        self.number = number
        self.label = job.configurations[number].label
        self._job, self._reader, self._reference, self._gates = job, reader, reference, gates
        self._prompt_tokens = len(prompt)
        self._completion = list(job.configurations[number].prefix)
        self._unread = [*prompt, *self._completion]
        self._pieces = Pieces(loaded.tokenizer, prompt[-_CONTEXT:])
        self._tokens: list[CompletionToken] = [
            CompletionToken(id=token, text=self._pieces.add(token), log_probability=None, read=0, seconds=0.0)
            for token in self._completion
        ]
        self._stops = _stops(loaded)
        self._passes = 0

    @property
    def end(self) -> CompletionEnd:
        """The end of the completion as of now."""
        if self._completion and self._completion[-1] in self._stops:
            return "end"
        return "length" if len(self._completion) >= self._job.new_tokens else "stopped"

    @property
    def missing(self) -> int:
        return self._job.new_tokens - len(self._completion) if self.end == "stopped" else 0

    def step(self, job_id: str) -> Token:
        unread = self._unread
        logits = self._reader.read(unread)
        token = choose(logits, self._job.sampling, len(self._completion))
        dense = None if self._reference is None else self._reference.read(unread)
        if self._gates is not None and self._passes == 0:
            self._gates.reset_counts()  # of the prompt: the sparsity is that of tokens read one by one
        self._passes += 1
        self._completion.append(token)
        self._unread = [token]
        added = Token(
            job_id=job_id,
            configuration=self.number,
            id=token,
            text=self._pieces.add(token),
            log_probability=float(logits[token]),
            dense_log_probability=None if dense is None else float(dense[token]),
            # Rounding may make the divergence negative.
            divergence=None if dense is None else max(float(divergences(dense, logits)), 0.0),
            read=len(unread),
            seconds=self._reader.seconds,
            dense_seconds=None if self._reference is None else self._reference.seconds,
        )
        self._tokens.append(added)
        return added

    def finished(self, job_id: str) -> CompletionFinished:
        # The counts of the first pass, the prompt's, are dropped: none are left after a single token.
        counted = self._gates is not None and self._passes > 1
        lasting = self._job.store and (self.end != "stopped" or len(self._tokens) >= LEAST_TOKENS)
        return CompletionFinished(
            job_id=job_id,
            configuration=self.number,
            end=self.end,
            prompt_tokens=self._prompt_tokens,
            sparsity=self._gates.gated_sparsity if self._gates is not None and counted else None,
            tokens=tuple(self._tokens) if lasting else (),
        )


class _Turns:
    """Turns of several sides, token by token, until all have ended."""

    def __init__(self, job: GenerateJob, emit: Emit, reporter: Reporter, job_id: str) -> None:
        self._emit, self._reporter, self._job_id = emit, reporter, job_id
        self._total = sum(max(job.new_tokens - len(configuration.prefix), 0) for configuration in job.configurations)
        self._done = 0

    def take(self, sides: Sequence[_Side], models: Sequence[LoadedModel]) -> None:
        """Complete on all sides and emit their tokens.

        The first passes read the prompt and can be long: every matrix product checks for cancellation. Later each
        decoder layer does, which adds next to nothing to the times.
        """
        self._reporter.stage("")
        try:
            with ExitStack() as checks:
                for loaded in models:
                    checks.enter_context(cancellable(loaded.model, self._reporter))
                self._turn(sides)
            with ExitStack() as checks:
                for loaded in models:
                    layers = [layer.module for layer in loaded.view.layers]
                    checks.enter_context(cancellable(loaded.model, self._reporter, layers))
                while any(side.missing for side in sides):
                    self._turn(sides)
        finally:  # also after a cancellation: the completions so far may be stored
            for side in sides:
                self._emit(side.finished(self._job_id))

    def _turn(self, sides: Sequence[_Side]) -> None:
        for side in sides:
            if side.missing:
                self._reporter.check()
                self._emit(side.step(self._job_id))
                self._done += 1
                self._reporter.progress(self._done, self._total, "tokens", side.label)
