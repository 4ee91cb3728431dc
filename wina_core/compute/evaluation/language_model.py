"""lm-eval's interface of a loaded model, with padding for gates, progress, and truncation."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from wina_core.compute.evaluation.lm_eval_adapter import HFLM, normalize_gen_kwargs
from wina_core.compute.evaluation.shared_passes import Batches, SharedPasses, passes_name
from wina_core.compute.gating import Gates
from wina_core.compute.gating.rules import without_trailing
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.view import LayerView
from wina_core.compute.render_limits import render_chat
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError

_PADDING = 0
"""lm-eval's padding of log-likelihood batches, on the right and without an attention mask."""


_LEAST_LOGITS = 8
"""Positions of a row whose logits are always made: products of one or two rows round otherwise than that of the whole
passage, and scores would differ from stock lm-eval's in the last digit."""


class LanguageModel(HFLM):
    """lm-eval's language model for the requests of one task or group.

    Raises WinaError for a tokenizer without what lm-eval needs, and for requests whose continuation is empty or longer
    than the model's window.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        gates: Gates | None,
        batches: Batches,
        reporter: Reporter,
        task: str,
        shared: SharedPasses | None = None,
        sharing: Sequence[Gates] = (),
    ) -> None:
        # Summed in 16 bits, log-likelihoods have three digits, and methods would tie.
        softmax_dtype = torch.float32 if loaded.model.dtype.itemsize == 2 else None
        super().__init__(pretrained=loaded.model, tokenizer=_tokenizer(loaded), softmax_dtype=softmax_dtype)
        if self.prefix_token_id is None:
            raise WinaError(_missing_token(loaded, "neither the beginning nor the end of a text"))
        self.truncated: set[int] = set()
        """The id() of every request whose beginning was truncated."""
        self._loaded = loaded
        self._gates = gates
        self._batches = batches
        self._reporter = reporter
        self._task = task
        self._shared = shared or SharedPasses()
        self._sharing = sharing
        """Removed gates that will answer the same requests."""
        self._done = 0.0
        self._total = 0
        self._windows = 0
        self._recorded: list[Tensor] | None = None
        """Ids of the batches that lm-eval forms, while a dry run records them."""
        self._requests: Sequence[Any] = ()
        # Kept, since the property reads it from the model's config at every call.
        self._max_length = self._window = self.max_length
        self._lengths: dict[str, int] | None = None
        """Tokens of the prompts of generations."""
        self._scored: dict[int, tuple[int, int] | None] = {}
        """{`_key` of read ids: their first scored position, and their end}; None where two ends are possible."""
        self._aligned = False
        """Whether the rows of the latest logits end with their last scored ones."""
        self._encode = lru_cache(maxsize=4)(super().tok_encode)  # lm-eval asks for the context anew with every choice
        self.set_cache_hook(self)  # lm-eval calls its `add_partial` after each answer, which counts progress here

    def add_partial(self, attribute: str, request: Any, result: Any) -> None:  # noqa: ARG002 - lm-eval's cache hook
        if attribute != "loglikelihood_rolling":  # those are all answered together at the end
            self._advance(1)

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = True) -> Any:  # noqa: ARG002 - always off
        self._begin(requests)
        return self._answer_by_layers(partial(super().loglikelihood, requests, disable_tqdm=True))

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = True) -> Any:  # noqa: ARG002
        """Return log-likelihoods of whole texts, split into windows of the model's context."""
        self._begin(requests)
        rolling = super().loglikelihood_rolling

        def answer() -> Any:
            self._windows = 0
            return rolling(requests, disable_tqdm=True)

        return self._answer_by_layers(answer)

    def generate_until(self, requests: list[Any], disable_tqdm: bool = True) -> Any:  # noqa: ARG002
        if self.eot_token_id is None:
            raise WinaError(_missing_token(self._loaded, "no end of a text"))
        generated = [normalize_gen_kwargs(request.args[1], self.max_gen_toks)["max_gen_toks"] for request in requests]
        if self._loaded.view.mapped is not None:
            self._reporter.log("warning", f"{self._task}: every generated token reads all weights from their files.")
        if max(generated) >= self._window:
            raise WinaError(
                f'The task "{self._task}" has {max(generated):,} tokens generated, but the model\'s window has '
                f"{self._window:,}; choose a model with a longer one, or give the task fewer max_gen_toks."
            )
        self._begin(requests, max(generated))
        lengths: dict[str, int] = {}
        self._lengths = lengths
        answers = super().generate_until(requests, disable_tqdm=True)
        self._lengths = None
        self.truncated |= {
            id(request)
            for request, tokens in zip(requests, generated, strict=True)
            if lengths[request.args[0]] + tokens > self._window
        }
        return answers

    def tok_encode(self, string: str, *args: Any, **kwargs: Any) -> list[int]:
        """Tokenize, checking for cancellation: large tasks spend long here before the first batch."""
        self._reporter.check()
        tokens: list[int] = self._encode(string, *args, **kwargs)
        if self._lengths is not None:
            self._lengths[string] = len(tokens)
        self._windows += math.ceil(len(tokens) / self._window)
        return tokens

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Return messages within the model's chat template; called by lm-eval for every prompt."""
        render = partial(super().apply_chat_template, chat_history, add_generation_prompt)
        characters = sum(len(message["content"]) for message in chat_history)
        return render_chat(render, characters, f"evaluate {self._task} without it")

    def warn_of_truncation(self) -> None:
        if self.truncated:
            self._reporter.log(
                "warning",
                f"{self._task}: {len(self.truncated):,} of {self._total:,} prompts are longer than the model's window "
                f"of {self._window:,} tokens; their beginning was cut off, as lm-eval does, so that the end and the "
                "answer fit.",
            )

    def _begin(self, requests: Sequence[Any], generated: int = 0) -> None:
        """Count the requests and choose the batch size by the longest, in characters."""
        self._total += len(requests)
        self._requests = requests
        texts = ("".join(argument for argument in request.args if isinstance(argument, str)) for request in requests)
        tokens = len(self.tok_encode(max(texts, key=len))) + generated
        self.batch_size_per_gpu = self._batches.size(min(tokens, self._window))

    def _answer_by_layers(self, answer: Callable[[], Any]) -> Any:
        """Return the answers to requests; where memory does not hold the weights, all batches pass each layer together.

        lm-eval runs twice then: first to record its batches, later to score what has passed the layers.
        """
        view, gates = self._loaded.view, self._gates
        if view.mapped is None:
            return answer()
        self._recorded = []
        answer()
        batches, self._recorded = self._recorded, None
        before = {} if gates is None else gates.counts()

        def carry(lanes: Sequence[Gates | None]) -> None:
            self._shared.carry(
                view, batches, lanes, self._reporter, self._passed_layer, passes_name(self._task), _Padded
            )

        try:
            carry((gates, *self._sharing))
        except WinaError as error:
            if not self._sharing:
                raise
            self._reporter.log("warning", f"{self._task} passes the layers for one run at a time, since: {error}")
            carry((gates,))
        if gates is not None:
            # A task may send requests of several kinds, whose counts add up.
            gates.set_counts(_sum_counts(before, self._shared.counts(batches, gates)))
        with self._shared.arriving(batches, gates):
            return answer()

    def _passed_layer(self, layer: LayerView) -> None:
        self._reporter.progress(0, self._total, "requests", f"{self._task}: layer {layer.index + 1}")

    def _loglikelihood_tokens(
        self,
        requests: Any,
        disable_tqdm: bool = True,  # noqa: ARG002
        override_bs: int | None = None,
    ) -> Any:
        if override_bs is None:  # not windows of a text
            self._check_requests(requests)
        self._scored = _scored_positions([self._read_ids(*request) for request in requests])
        answers = super()._loglikelihood_tokens(requests, disable_tqdm=True, override_bs=override_bs)
        if override_bs is not None:
            self._advance(self._total * len(requests) / max(self._windows, 1))
        return answers

    def _check_requests(self, encoded: Sequence[tuple[Any, list[int], list[int]]]) -> None:
        """Refuse impossible requests, and record truncated ones."""
        window = self._window
        for request, (_, context, continuation) in zip(self._requests, encoded, strict=True):
            if not 0 < len(continuation) <= window:
                raise WinaError(
                    f'The task "{self._task}" asks how likely {request.args[1][:40]!r} is, which has '
                    f"{len(continuation):,} tokens where 1 to {window:,} fit into the model's window; correct its data."
                )
            if len(context) + len(continuation) > window + 1:  # the last token is not read
                self.truncated.add(id(request))

    def _read_ids(self, _: Any, context: list[int], continuation: list[int]) -> tuple[list[int], int]:
        """Return the ids that lm-eval reads for a request, and the position of the first scored logits."""
        ids = (context + continuation)[-(self._window + 1) :][:-1]
        return ids, len(ids) - len(continuation)

    def _model_call(
        self,
        inps: Tensor,
        attn_mask: Tensor | None = None,  # noqa: ARG002 - of encoders alone
        labels: Tensor | None = None,  # noqa: ARG002 - likewise
    ) -> Tensor:
        """Return the scored logits of right-padded ids [batch, tokens]: [batch, positions, vocabulary], each row's at
        the end, where `_select_cont_toks` takes them.

        Those of whole passages would take gigabytes with a large vocabulary, and most of the time of a small model.
        """
        spans = [self._scored.get(_key(row)) for row in inps.tolist()]
        self._aligned = self._recorded is None and None not in spans
        if self._recorded is not None:
            self._recorded.append(inps)
            # Logits of no memory: the answers of the recording run are thrown away.
            return torch.zeros(1, device=inps.device).expand(*inps.shape, self._loaded.view.head.out_features)
        real = nullcontext() if self._gates is None else self._gates.tokens(without_trailing(inps, _PADDING))
        with torch.no_grad(), real:
            if not self._aligned:
                logits: Tensor = self.model(inps).logits
                return logits
            scored = [range(*span) for span in spans if span is not None]
            # One list for all rows: transformers takes the same positions of each.
            positions = sorted({*chain.from_iterable(scored), *range(min(_LEAST_LOGITS, inps.shape[1]))})
            logits = self.model(inps, logits_to_keep=torch.tensor(positions, device=inps.device)).logits
        longest = max(map(len, scored))
        column = {position: index for index, position in enumerate(positions)}
        # Shorter rows begin with some logits that nobody reads.
        columns = [[0] * (longest - len(span)) + [column[position] for position in span] for span in scored]
        return logits[torch.arange(len(inps))[:, None], torch.tensor(columns)]

    def _select_cont_toks(self, logits: Tensor, contlen: int | None = None, inplen: int | None = None) -> Tensor:
        """Return the logits [contlen, vocabulary] that score a continuation, of one row of `_model_call`."""
        if self._aligned and contlen is not None:
            return logits[-contlen:]
        selected: Tensor = super()._select_cont_toks(logits, contlen, inplen)
        return selected

    def _advance(self, requests: float) -> None:
        if self._recorded is not None:
            return
        self._done = min(self._done + requests, self._total)
        self._reporter.progress(self._done, self._total, "requests", self._task)


def _sum_counts(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {**one, **other, **{key: one[key] + other[key] for key in one.keys() & other.keys()}}


class _Padded:
    """Gates as a lane of batches that lm-eval has padded."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates

    def begin(self, tokens: Tensor) -> None:
        with self._gates.tokens(without_trailing(tokens, _PADDING)):
            self._gates.begin(tokens)

    def at(self, layer: LayerView) -> AbstractContextManager[None]:
        return self._gates.at(layer)

    def counts(self) -> dict[str, Tensor]:
        return self._gates.counts()

    def accepts(self, counts: Mapping[str, Tensor]) -> bool:
        return self._gates.accepts(counts)

    def set_counts(self, counts: Mapping[str, Tensor]) -> None:
        self._gates.set_counts(counts)


def _scored_positions(requests: Iterable[tuple[list[int], int]]) -> dict[int, tuple[int, int] | None]:
    """Return the first scored position and the end of each row of ids; None where ids that end with the padding's id
    leave the end of a padded row open."""
    spans: dict[int, tuple[int, int] | None] = {}
    for ids, first in requests:
        key, end = _key(ids), len(ids)
        start, same_end = spans.get(key, (first, end)) or (0, -1)
        spans[key] = (min(start, first), end) if same_end == end else None
    return spans


def _key(ids: list[int]) -> int:
    """Return a hash that ignores padding."""
    end = len(ids)
    while end and ids[end - 1] == _PADDING:
        end -= 1
    return hash(tuple(ids[:end]))


def _tokenizer(loaded: LoadedModel) -> Any:
    """Return the model's tokenizer, or a copy that names the end of a text and can pad.

    The end is then that of the model's config. If the padding token lies beyond the embedding, the end pads instead, as
    in lm-eval for tokenizers without one; padding is masked out.
    """
    tokenizer = loaded.tokenizer
    beyond = tokenizer.pad_token_id is not None and tokenizer.pad_token_id >= loaded.view.embedding.num_embeddings
    if tokenizer.eos_token_id is not None and not beyond:
        return tokenizer
    # A copy: the model's own tokenizer also reads the texts of other measurements.
    copied = copy.deepcopy(tokenizer)
    named = loaded.model.config.eos_token_id
    end = named[0] if isinstance(named, list) else named
    if copied.eos_token_id is None and end is not None:
        copied.eos_token = copied.convert_ids_to_tokens(end)
    if beyond:
        copied.pad_token = copied.eos_token
    return copied


def _missing_token(loaded: LoadedModel, missing: str) -> str:
    return (
        f"The tokenizer of {loaded.source.location} names {missing}, which lm-eval needs here; "
        "set eos_token in its tokenizer_config.json."
    )
