"""The server: one loaded model, sparse or plain, transformers' handlers, the gatekeeper, and a clean stop.

The handlers of requests are bound to the loaded model, with limits and an end of each generation.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
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
from transformers.cli.serving.utils import (
    GenerateManager,
    GenerationState,
    Modality,
    _GenerationCancelled,
    set_torch_seed,
)
from transformers.utils import logging as transformers_logging

from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import check_finite, load_model, load_tokenizer, load_weights, placement
from wina_core.compute.reporter import NullReporter
from wina_core.compute.serving.gatekeeper import FAILED, Gatekeeper, Refused
from wina_core.compute.sparse import quantizer  # noqa: F401 - registers sparse models with transformers
from wina_core.errors import ending_signals
from wina_core.jobs.hosted import Listening, ServerEvent
from wina_core.model_info.model_checks import SPARSE_METHOD, check_folder, read_config
from wina_core.specs import DType, ModelSource

_STOP_SECONDS = 10
"""Time for answers to be sent that a stop has ended."""
_MOST_CONNECTIONS = 64
"""Connections at a time; more are refused, since each may hold a whole body."""


def serve(
    folder: Path,
    name: str,
    listening: socket.socket,
    *,
    key: str | None,
    max_body: int,
    max_tokens: int,
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
        max_body: Most bytes of a request.
        max_tokens: Most new tokens of an answer.
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
    generations = Generations(max_tokens, getattr(model.config.get_text_config(), "max_position_embeddings", None))
    app = app_of(name, model, tokenizer, generations)
    keeper = Gatekeeper(app, generations, name, chat=chat, key=key, max_body=max_body, report=announce)
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
    config = uvicorn.Config(
        keeper,
        log_config=None,
        access_log=False,
        server_header=False,
        http="h11",
        ws="none",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    server = _Server(config, generations, lambda: announce(Listening(address=address, model=name, chat=chat)))
    for number in ending_signals():
        # uvicorn leaves SIGHUP alone, and raises a signal again after its shutdown: the default handlers of both would
        # end the process at once.
        signal.signal(number, server.handle_exit)
    server.run(sockets=[listening])


def app_of(name: str, model: Any, tokenizer: Any, generations: Generations) -> FastAPI:
    """Return transformers' server of one model; every error becomes a refusal."""
    one = OneModel(name, model, tokenizer)
    app = build_server(
        model_manager=one,
        chat_handler=Chats(one, generations),
        completion_handler=Completions(one, generations),
        response_handler=None,  # the gatekeeper lets no request reach these three
        transcription_handler=None,
        systemone_handler=None,
        generation_state=generations,
    )

    def refuse(_request: Any, error: Exception) -> Response:
        match error:
            case Refused():
                refused = error
            case HTTPException():
                refused = Refused(error.status_code, str(error.detail))
            case TemplateError() | LookupError() | TypeError() | ValueError():  # of the messages: see `_ServedModel`
                refused = Refused(400, f"The model's chat template refuses these messages ({error}).")
            case _:
                refused = Refused(500, FAILED)
        return Response(refused.content, refused.status, refused.headers, "application/json")

    for kind in (Refused, HTTPException, TemplateError, LookupError, TypeError, ValueError, Exception):
        app.add_exception_handler(kind, refuse)
    return app


class _Server(uvicorn.Server):
    """uvicorn that says when it listens, and ends answers where they are once it stops."""

    def __init__(self, config: uvicorn.Config, generations: Generations, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._generations, self._on_listening = generations, on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._generations.stop()
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

    def __init__(self, stopping: threading.Event) -> None:
        """`stopping` is set once the server stops."""
        self.seed: int | None = None
        self.tokens, self._start, self._last = 0, 0.0, 0.0
        self._ended, self._stopping = threading.Event(), stopping
        self._config: Any = None

    def begin(self, config: Any) -> None:
        """Begin on the thread that generates."""
        self._start, self._config = time.perf_counter(), config
        if self.seed is not None:
            set_torch_seed(self.seed)

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
        ended = self._ended.is_set() or self._stopping.is_set()
        if ended:
            self._config.max_new_tokens = self.tokens  # the handlers then say "length": the answer is cut off
        return torch.full(ids.shape[:1], ended, device=ids.device)


_current: ContextVar[Generation] = ContextVar("_current")
"""Generation of the request that is being handled."""


class Generations(GenerationState):
    """transformers' generation state with limits on tokens and an end of each generation.

    Args:
        most_tokens: Most new tokens of an answer.
        context: Most tokens of prompt and answer together; None if the model does not say.
    """

    def __init__(self, most_tokens: int, context: int | None) -> None:
        super().__init__()
        self._manager = _Manager(most_tokens, context)
        self._stopping = threading.Event()

    def get_manager(self, _model: str, use_cb: bool = False) -> GenerateManager:
        assert not use_cb
        return self._manager

    def begin(self) -> Generation:
        """Return the generation of the request that is being handled."""
        generation = Generation(self._stopping)
        _current.set(generation)
        return generation

    def stop(self) -> None:
        """End all generations at their next tokens."""
        self._stopping.set()


class _ServedModel:
    """A model whose errors go to the log: transformers would send their text to the client."""

    def __init__(self, model: Any, generation: Generation) -> None:
        self._model, self._generation = model, generation

    def generate(self, **settings: Any) -> Any:
        """Generate; raise Refused with the sentence of an unforeseen error."""
        self._generation.begin(settings["generation_config"])
        try:
            return self._model.generate(**settings, stopping_criteria=StoppingCriteriaList([self._generation]))
        except _GenerationCancelled:
            raise
        except Exception as error:
            _log.exception("A generation failed.")
            raise Refused(500, FAILED) from error


class _Manager(GenerateManager):
    """transformers' generation, within the limits, on its one thread, so that answers are generated one at a time."""

    def __init__(self, most_tokens: int, context: int | None) -> None:
        super().__init__()
        self._most, self._context = most_tokens, context

    def generate_streaming(
        self, model: Any, processor: Any, inputs: Any, gen_config: Any, *args: Any, **kwargs: Any
    ) -> Any:
        self._limit(inputs, gen_config)
        served = _ServedModel(model, _current.get())
        return super().generate_streaming(served, processor, inputs, gen_config, *args, **kwargs)

    async def generate_non_streaming(
        self, model: Any, processor: Any, inputs: Any, gen_config: Any, *args: Any, **kwargs: Any
    ) -> Any:
        self._limit(inputs, gen_config)
        served = _ServedModel(model, _current.get())
        return await super().generate_non_streaming(served, processor, inputs, gen_config, *args, **kwargs)

    def _limit(self, inputs: Any, config: Any) -> None:
        """Shorten an answer to the limits; raise Refused if the prompt leaves no room for it."""
        prompt = inputs["input_ids"].shape[-1]
        room = self._most if self._context is None else min(self._most, self._context - prompt)
        if room < 1:
            raise Refused(400, f"The prompt has {prompt} tokens, but the model reads {self._context}; shorten it.")
        config.max_new_tokens = min(config.max_new_tokens, room)


class _Sampled:
    """Handler that samples if a request sets a temperature or top_p: transformers' own leaves do_sample off."""

    def _build_generation_config(self, body: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        # The seed is set where the answer is generated, since another one may be under way.
        _current.get().seed = body.pop("seed", None)
        config = super()._build_generation_config(body, *args, **kwargs)  # type: ignore[misc]
        if body.get("temperature") or (body.get("temperature") is None and body.get("top_p") is not None):
            config.do_sample = True
        return config


class Chats(_Sampled, ChatCompletionHandler):
    """Handler of /v1/chat/completions."""


class Completions(_Sampled, CompletionHandler):
    """Handler of /v1/completions."""
