"""transformers' handlers of requests, bound to one loaded model, with limits and an end of each generation."""

import asyncio
import logging
import threading
import time
from typing import Any

import torch
from torch import Tensor
from transformers import StoppingCriteriaList
from transformers.cli.serving.chat_completion import ChatCompletionHandler
from transformers.cli.serving.completion import CompletionHandler
from transformers.cli.serving.utils import GenerateManager, GenerationState, Modality, _GenerationCancelled

from wina_core.compute.serving.requests import FAILED, Refused

_log = logging.getLogger(__name__)
USUAL_TOKENS = 1024
"""Most tokens of an answer whose request names no number, as in transformers' server."""


class OneModel:
    """transformers' model manager without any way to load: every request gets the one model.

    Args:
        name: The name that requests give.
        model: transformers' PreTrainedModel.
        tokenizer: Its tokenizer.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        self.force_model = name
        self._model, self._tokenizer = model, tokenizer

    def process_model_name(self, name: str) -> str:
        """Return the name without a revision."""
        return name

    def load_model_and_processor(self, *_: Any, **__: Any) -> tuple[Any, Any]:
        """Return the model and its tokenizer."""
        return self._model, self._tokenizer

    def get_model_modality(self, *_: Any, **__: Any) -> Modality:
        """Return text: no images or sounds are read."""
        return Modality.LLM

    def get_gen_models(self) -> list[dict[str, Any]]:
        """Return the one model as /v1/models lists it."""
        return [{"id": self.force_model, "object": "model", "created": 0, "owned_by": "wina"}]

    def shutdown(self) -> None:
        """Keep the model until the process ends."""


class Turn:
    """The generation for one request: a stopping criterion of transformers that counts tokens and can be ended."""

    def __init__(self, asked: int | None) -> None:
        self.asked = asked
        """Tokens that the request asks for; None for as many as usual."""
        self.tokens, self._begun, self._last = 0, 0.0, 0.0
        self._ended = threading.Event()
        self._config: Any = None

    def begin(self, config: Any) -> None:
        """Start the clock of a generation with this config."""
        self._begun, self._config = time.perf_counter(), config

    @property
    def seconds(self) -> float:
        """Return the time from the beginning to the last token."""
        return self._last - self._begun if self.tokens else 0.0

    def end(self) -> None:
        """End the generation at its next token."""
        self._ended.set()

    def __call__(self, ids: Tensor, _scores: Any, **_: Any) -> Tensor:
        """Return whether each sequence ends here."""
        self.tokens, self._last = self.tokens + 1, time.perf_counter()
        if self._ended.is_set():
            self._config.max_new_tokens = self.tokens  # the handlers then say "length": the answer is cut off
        return torch.full(ids.shape[:1], self._ended.is_set(), device=ids.device)


class Turns(GenerationState):
    """transformers' generation state with one turn at a time and limits on tokens.

    Args:
        most_tokens: Largest number of new tokens that a request may ask for.
        context: Most tokens of prompt and answer together; None if the model does not say.
    """

    def __init__(self, most_tokens: int, context: int | None) -> None:
        super().__init__()
        self._most, self._context = most_tokens, context
        self._manager = _Manager(self)
        self.current = Turn(None)

    def get_manager(self, _model: str, use_cb: bool = False) -> GenerateManager:
        """Return the manager of the one model."""
        assert not use_cb
        return self._manager

    def begin(self, asked: int | None) -> Turn:
        """Begin the turn of a request, after the last one's has ended."""
        self.current = Turn(asked)
        return self.current

    def fit(self, inputs: Any, config: Any) -> dict[str, Any]:
        """Return a request's inputs with its turn, and limit its answer; raise Refused if it is too long."""
        turn, prompt = self.current, inputs["input_ids"].shape[-1]
        room = self._most if self._context is None else min(self._most, self._context - prompt)
        if room < 1:
            raise Refused(400, f"The prompt has {prompt} tokens, but the model reads {self._context}; shorten it.")
        if (turn.asked or 0) > room:
            limit = f"the limit is {self._most}" if room == self._most else f"the model has room for {room}"
            raise Refused(
                400, f"{turn.asked} new tokens after a prompt of {prompt} are too many; {limit}. Lower max_tokens."
            )
        config.max_new_tokens = turn.asked or min(room, USUAL_TOKENS)
        turn.begin(config)
        return {**inputs, "stopping_criteria": StoppingCriteriaList([turn])}


class _Logged:
    """A model whose errors go to the log: transformers would send their text to the client."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def generate(self, **settings: Any) -> None:
        """Generate; raise RuntimeError with the sentence of an unforeseen error."""
        try:
            self._model.generate(**settings)
        except _GenerationCancelled:
            raise
        except Exception as error:
            _log.exception("A generation failed.")
            raise RuntimeError(FAILED) from error


class _Manager(GenerateManager):
    """transformers' generation on one thread, within the limits."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def generate_streaming(
        self, model: Any, processor: Any, inputs: Any, gen_config: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Start a generation whose pieces come through a queue."""
        fitted = self._turns.fit(inputs, gen_config)
        return super().generate_streaming(_Logged(model), processor, fitted, gen_config, *args, **kwargs)

    async def generate_non_streaming(
        self, model: Any, processor: Any, inputs: Any, gen_config: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Return a whole answer; if it is cancelled, the thread comes to the end of its turn by itself."""
        fitted = self._turns.fit(inputs, gen_config)
        return await asyncio.shield(
            super().generate_non_streaming(model, processor, fitted, gen_config, *args, **kwargs)
        )


class _Sampled:
    """Handler that samples where a request asks for it: transformers' takes the temperature, but not that it is to be
    used."""

    def _build_generation_config(self, body: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        config = super()._build_generation_config(body, *args, **kwargs)  # type: ignore[misc]
        if body.get("temperature") or (body.get("temperature") is None and body.get("top_p") is not None):
            config.do_sample = True
        return config


class Chats(_Sampled, ChatCompletionHandler):
    """Handler of /v1/chat/completions."""


class Completions(_Sampled, CompletionHandler):
    """Handler of /v1/completions."""
