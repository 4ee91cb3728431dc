"""The server: one loaded model, sparse or plain, transformers' handlers, the gatekeeper, and a clean stop.

The handlers of requests are bound to the loaded model, with limits and an end of each generation.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.responses import Response
from jinja2 import TemplateError
from torch import Tensor
from transformers import StoppingCriteriaList
from transformers.cli.serving.chat_completion import ChatCompletionHandler
from transformers.cli.serving.completion import CompletionHandler
from transformers.cli.serving.server import build_server
from transformers.cli.serving.utils import GenerateManager, GenerationState, Modality, _GenerationCancelled
from transformers.utils import logging as transformers_logging

from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import check_finite, load_model, load_tokenizer, load_weights, placement
from wina_core.compute.reporter import NullReporter
from wina_core.compute.serving.gatekeeper import Gatekeeper, RequestLimits
from wina_core.compute.serving.requests import FAILED, Refused
from wina_core.compute.sparse import quantizer  # noqa: F401 - registers sparse models with transformers
from wina_core.errors import ending_signals
from wina_core.jobs.hosted import Listening, ServerEvent
from wina_core.model_info.model_checks import SPARSE_METHOD, check_folder, read_config
from wina_core.specs import DType, ModelSource

_CANCEL_SECONDS = 3
"""Time for answers that were ended to be sent."""


def serve(
    folder: Path,
    name: str,
    listening: socket.socket,
    *,
    key: str | None,
    limits: RequestLimits,
    device: str,
    dtype: DType,
    announce: Callable[[ServerEvent], None],
) -> None:
    """Load a model and answer requests until a signal ends this; to be called from the main thread.

    Args:
        folder: A sparse model or a plain one.
        name: The model's name; requests give it as `announce` gets it.
        listening: The socket, from `gatekeeper.bind`.
        key: The API key; None for none.
        limits: Limits on requests.
        device: "auto", "cpu", "cuda" or "cuda:1".
        dtype: Data type of the weights; "auto" for that of the files.
        announce: Called once requests are accepted, and at the end of each.

    Raises:
        WinaError: if the folder holds no model that can be loaded.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is ever fetched
    transformers_logging.set_verbosity_error()
    name = re.sub(r"[^\w.-]", "-", name)
    model, tokenizer = load_served(folder, device, dtype)
    chat = bool(getattr(tokenizer, "chat_template", None))
    turns = Generations(limits.tokens, getattr(model.config.get_text_config(), "max_position_embeddings", None))
    keeper = Gatekeeper(
        app_of(name, model, tokenizer, turns), turns, name, chat=chat, key=key, limits=limits, report=announce
    )
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
    config = uvicorn.Config(
        keeper,
        log_config=None,
        access_log=False,
        server_header=False,
        http="h11",
        ws="none",
        timeout_graceful_shutdown=round(limits.stop_seconds) + _CANCEL_SECONDS,
    )
    server = _Server(config, keeper, limits, lambda: announce(Listening(address=address, model=name, chat=chat)))
    for number in ending_signals():
        # uvicorn leaves SIGHUP alone, and raises a signal again after its shutdown: the default handlers of both would
        # end the process at once.
        signal.signal(number, server.handle_exit)
    server.run(sockets=[listening])


def app_of(name: str, model: Any, tokenizer: Any, turns: Generations) -> FastAPI:
    """Return transformers' server of one model; every error becomes a refusal."""
    one = OneModel(name, model, tokenizer)
    app = build_server(
        model_manager=one,
        chat_handler=Chats(one, turns),
        completion_handler=Completions(one, turns),
        response_handler=None,  # the gatekeeper lets no request reach these three
        transcription_handler=None,
        systemone_handler=None,
        generation_state=turns,
    )

    def refuse(_request: Any, error: Exception) -> Response:
        match error:
            case Refused():
                refused = error
            case HTTPException():
                refused = Refused(error.status_code, str(error.detail))
            case TemplateError():
                refused = Refused(400, f"The model's chat template refuses these messages ({error}).")
            case _:
                refused = Refused(500, FAILED)
        return Response(refused.content, refused.status, refused.headers, "application/json")

    for kind in (Refused, HTTPException, TemplateError, Exception):
        app.add_exception_handler(kind, refuse)
    return app


class _Server(uvicorn.Server):
    """uvicorn that says when it listens, and ends answers that are not finished in time."""

    def __init__(
        self, config: uvicorn.Config, keeper: Gatekeeper, limits: RequestLimits, on_listening: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._keeper, self._limits, self._on_listening = keeper, limits, on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn waits for open answers; after this time they end at their next token.
        asyncio.get_running_loop().call_later(self._limits.stop_seconds, self._keeper.stop)
        await super().shutdown(sockets)


def load_served(folder: Path, device: str, dtype: DType) -> tuple[Any, Any]:
    """Return transformers' model of a folder, gated if it is a sparse one, and its tokenizer.

    Nothing outside the folder is read, and no code from it is run. Raises WinaError for a folder that holds no model
    that can be loaded.
    """
    source, reporter = ModelSource(location=str(folder), device=device, dtype=dtype), NullReporter()
    config = read_config(folder, SPARSE_METHOD)
    if "quantization_config" not in config:
        loaded = load_model(source, reporter)
        return loaded.model, loaded.tokenizer
    check_folder(folder, SPARSE_METHOD)
    model = load_weights(folder, source, placement(device, reporter))
    check_finite(view(model), folder)
    return model, load_tokenizer(folder)


_log = logging.getLogger(__name__)
DEFAULT_MAX_TOKENS = 1024
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
        return name  # transformers' own appends "@main"

    def load_model_and_processor(self, *_: Any, **__: Any) -> tuple[Any, Any]:
        return self._model, self._tokenizer

    def get_model_modality(self, *_: Any, **__: Any) -> Modality:
        return Modality.LLM

    def get_gen_models(self) -> list[dict[str, Any]]:
        return [{"id": self.force_model, "object": "model", "created": 0, "owned_by": "wina"}]

    def shutdown(self) -> None:
        """Keep the model until the process ends."""


class Generation:
    """The generation for one request: a stopping criterion of transformers that counts tokens and can be ended."""

    def __init__(self, max_tokens: int | None) -> None:
        self.max_tokens = max_tokens
        """Tokens that the request asks for; None for as many as usual."""
        self.tokens, self._start, self._last = 0, 0.0, 0.0
        self._ended = threading.Event()
        self._config: Any = None

    def begin(self, config: Any) -> None:
        self._start, self._config = time.perf_counter(), config

    @property
    def seconds(self) -> float:
        """Return the time from the beginning to the last token."""
        return self._last - self._start if self.tokens else 0.0

    def end(self) -> None:
        """End the generation at its next token."""
        self._ended.set()

    def __call__(self, ids: Tensor, _scores: Any, **_: Any) -> Tensor:
        """Return whether each sequence ends here."""
        self.tokens, self._last = self.tokens + 1, time.perf_counter()
        if self._ended.is_set():
            self._config.max_new_tokens = self.tokens  # the handlers then say "length": the answer is cut off
        return torch.full(ids.shape[:1], self._ended.is_set(), device=ids.device)


class Generations(GenerationState):
    """transformers' generation state with one turn at a time and limits on tokens.

    Args:
        most_tokens: Largest number of new tokens that a request may ask for.
        context: Most tokens of prompt and answer together; None if the model does not say.
    """

    def __init__(self, most_tokens: int, context: int | None) -> None:
        super().__init__()
        self._most, self._context = most_tokens, context
        self._manager = _Manager(self)
        self.current = Generation(None)

    def get_manager(self, _model: str, use_cb: bool = False) -> GenerateManager:
        assert not use_cb
        return self._manager

    def begin(self, max_tokens: int | None) -> Generation:
        """Begin the turn of a request, after the last one's has ended."""
        self.current = Generation(max_tokens)
        return self.current

    def fit(self, inputs: Any, config: Any) -> dict[str, Any]:
        """Return a request's inputs with its turn, and limit its answer; raise Refused if it is too long."""
        turn, prompt = self.current, inputs["input_ids"].shape[-1]
        room = self._most if self._context is None else min(self._most, self._context - prompt)
        if room < 1:
            raise Refused(400, f"The prompt has {prompt} tokens, but the model reads {self._context}; shorten it.")
        if (turn.max_tokens or 0) > room:
            limit = f"the limit is {self._most}" if room == self._most else f"the model has room for {room}"
            raise Refused(
                400, f"{turn.max_tokens} new tokens after a prompt of {prompt} are too many; {limit}. Lower max_tokens."
            )
        config.max_new_tokens = turn.max_tokens or min(room, DEFAULT_MAX_TOKENS)
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

    def __init__(self, turns: Generations) -> None:
        super().__init__()
        self._turns = turns

    def generate_streaming(
        self, model: Any, processor: Any, inputs: Any, gen_config: Any, *args: Any, **kwargs: Any
    ) -> Any:
        fitted = self._turns.fit(inputs, gen_config)
        return super().generate_streaming(_Logged(model), processor, fitted, gen_config, *args, **kwargs)

    async def generate_non_streaming(
        self, model: Any, processor: Any, inputs: Any, gen_config: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Return a whole answer; after a cancellation, the thread ends its turn on its own."""
        fitted = self._turns.fit(inputs, gen_config)
        return await asyncio.shield(
            super().generate_non_streaming(model, processor, fitted, gen_config, *args, **kwargs)
        )


class _Sampled:
    """Handler that samples if a request sets a temperature or top_p: transformers' own leaves do_sample off."""

    def _build_generation_config(self, body: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        config = super()._build_generation_config(body, *args, **kwargs)  # type: ignore[misc]
        if body.get("temperature") or (body.get("temperature") is None and body.get("top_p") is not None):
            config.do_sample = True
        return config


class Chats(_Sampled, ChatCompletionHandler):
    """Handler of /v1/chat/completions."""


class Completions(_Sampled, CompletionHandler):
    """Handler of /v1/completions."""
