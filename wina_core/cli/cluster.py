"""`wina cluster`: commands that a cluster's queue and the window run; no command for people."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli import arrays
from wina_core.cli.arguments import options
from wina_core.jobs import encode
from wina_core.store import Store

app = typer.Typer(help="Commands that a cluster's queue and the window run.", no_args_is_help=True)


@app.command()
def watch(database: options.Database = None) -> None:
    """Import the results of all array jobs until they have ended, and print a line of JSON for each look at one."""
    with Store(database) as store:
        for report in arrays.watch(store):
            print(encode(report), end="", flush=True)


@app.command("answer")
def answer_request() -> None:
    """Answer a request about an array job, JSON on stdin, for a program on another computer; made for ssh."""
    from wina_core.remote.cluster.asking import MAX_REQUEST, answer_json

    print(encode(answer_json(sys.stdin.buffer.read(MAX_REQUEST + 1))), end="")


@app.command()
def element(
    folder: Annotated[Path, typer.Argument(help="Folder of the array.")],
    index: Annotated[int, typer.Argument(envvar="SLURM_ARRAY_TASK_ID", help="The element's number.")],
) -> None:
    """Compute one element of an array job that `wina study submit` made."""
    from wina_core.remote.cluster.element import Stop, compute_element  # no other command needs it

    code = compute_element(folder, index, Stop())
    sys.stderr.flush()
    os._exit(code)  # at once: a library's leftover threads must not keep the element alive
