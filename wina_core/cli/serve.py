"""`wina serve` and `wina engine`: processes that other programs talk to."""

import logging
import os
import signal
import stat
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli import options
from wina_core.errors import WinaError
from wina_core.files.hardware import allow_memory, parse_bytes
from wina_core.files.user_file import KEY_VARIABLE, read_key
from wina_core.jobs import encode
from wina_core.jobs.hosted import Listening, ServerEvent
from wina_core.model_info.model_checks import read_config
from wina_core.model_info.resolve import files_of
from wina_core.specs import ModelSource

_NEEDED = ("fastapi", "uvicorn", "openai")
"""Packages of the extra `serve`, all of which transformers' server imports."""

in_limits, in_server = options.panel("Limits"), options.panel("Server")


def serve(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help='A sparse model, any model folder or GGUF file, or "demo".')
    ],
    host: Annotated[str, in_server("--host", help="Address to listen on; others need an API key.")] = "127.0.0.1",
    port: Annotated[int, in_server("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    api_key_file: Annotated[
        Path | None,
        in_server("--api-key-file", help=f"File with the API key, which {KEY_VARIABLE} also gives.", metavar="FILE"),
    ] = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    memory: options.Memory = None,
    max_new_tokens: Annotated[int, in_limits(min=1, help="Most new tokens of an answer.")] = 2048,
    max_body: Annotated[str, in_limits("--max-body", help="Largest request, such as 1MB.", metavar="SIZE")] = "1MB",
    as_json: Annotated[
        bool, options.in_output("--json", help="Print each request as a line of JSON; stop once a pipe on stdin ends.")
    ] = False,
) -> None:
    """Serve a model to OpenAI's clients until Ctrl-C: /v1/completions, /v1/chat/completions, /v1/models.

    One answer is generated at a time. Requests can name no other model and no file.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise WinaError(
            f"wina serve needs {', '.join(missing)}; install the extra: pip install 'wina-workbench[serve]'."
        )
    # The server's parts take a tenth of a second, and torch takes seconds; bad input is found before that.
    from wina_core.compute.serving.gatekeeper import bind
    from wina_core.model_info.model_checks import SPARSE_METHOD

    key = read_key(api_key_file)
    allow_memory(memory)
    files = files_of(ModelSource(location=folder))
    read_config(files, SPARSE_METHOD)
    listening = bind(host, port, has_key=key is not None)
    size = round(parse_bytes(max_body))
    if as_json:
        threading.Thread(target=_stop_after_stdin, daemon=True).start()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    from wina_core.compute.serving.server import serve

    def announce(event: ServerEvent) -> None:
        if as_json:
            with suppress(OSError):  # the program that reads them is gone
                typer.echo(encode(event), nl=False)
        elif isinstance(event, Listening):
            typer.echo(f"{event.model} is served at {event.address}; Ctrl-C stops it.", err=True)
        else:
            rate = f", {event.tokens} tokens, {event.rate:.1f} tokens/s" if event.rate else ""
            reason = f": {event.reason}" if event.reason else ""
            typer.echo(f"{event.path} {event.status}{rate}{reason}", err=True)

    serve(
        files,
        _name(folder, files),
        listening,
        key=key,
        max_body=size,
        max_tokens=max_new_tokens,
        device=device,
        dtype=dtype,
        announce=announce,
    )
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(0)  # at once: libraries take seconds to end


def _stop_after_stdin() -> None:
    """Stop the server once the pipe on stdin ends."""
    # The pipe ends with the program at its other end, even if that is killed.
    with suppress(OSError):  # there is no stdin
        mode = os.fstat(0).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):  # a terminal, a file or /dev/null
            return
        while os.read(0, 4096):
            pass
        signal.raise_signal(signal.SIGTERM)


def _name(location: str, folder: Path) -> str:
    """Return the model's name in requests: the folder's, or that of a downloaded model without its owner."""
    return folder.resolve().name if Path(location).expanduser().is_dir() else location.rpartition("/")[2]


def engine() -> None:
    """Take jobs as JSON lines on stdin and send events on stdout, as the window's engine does; made for ssh."""
    from wina_core.engine.server.server import serve

    code = serve()
    sys.stderr.flush()
    os._exit(code)  # at once: a library's leftover threads must not keep the process alive
