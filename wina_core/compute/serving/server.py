"""The server: one loaded model, sparse or plain, transformers' handlers, the gatekeeper, and a clean stop."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.responses import Response
from jinja2 import TemplateError
from transformers.cli.serving.server import build_server
from transformers.utils import logging as transformers_logging

from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import check_finite, load_model, load_tokenizer, load_weights, placement
from wina_core.compute.reporter import NullReporter
from wina_core.compute.serving.gatekeeper import Gatekeeper, Limits
from wina_core.compute.serving.generation import Chats, Completions, OneModel, Turns
from wina_core.compute.serving.requests import FAILED, Refused
from wina_core.compute.sparse import quantizer  # noqa: F401 - registers sparse models with transformers
from wina_core.errors import ending_signals
from wina_core.jobs.hosted import Listening, ServerEvent
from wina_core.model_info.model_checks import SPARSE_METHOD, read_config
from wina_core.model_info.model_folder import check_folder
from wina_core.specs import DType, ModelSource

_CANCEL_SECONDS = 3
"""Time for answers that were ended to be sent."""


def serve(
    folder: Path,
    name: str,
    listening: socket.socket,
    *,
    key: str | None,
    limits: Limits,
    device: str,
    dtype: DType,
    announce: Callable[[ServerEvent], None],
) -> None:
    """Load a model and answer requests until a signal ends this; to be called from the main thread.

    Args:
        folder: A sparse model or a plain one.
        name: The model's name; requests give it as `announce` gets it.
        listening: The socket, from `listening.bind`.
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
    turns = Turns(limits.tokens, getattr(model.config.get_text_config(), "max_position_embeddings", None))
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
        signal.signal(number, server.handle_exit)
    server.run(sockets=[listening])


def app_of(name: str, model: Any, tokenizer: Any, turns: Turns) -> FastAPI:
    """Return transformers' server of one model; raise nothing but refusals."""
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
        self, config: uvicorn.Config, keeper: Gatekeeper, limits: Limits, on_listening: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._keeper, self._limits, self._on_listening = keeper, limits, on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen, and wait for the answers."""
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
