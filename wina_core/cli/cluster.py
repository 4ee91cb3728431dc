"""`wina cluster`: commands that a cluster's queue runs."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Commands that a cluster's queue runs.", no_args_is_help=True)


@app.callback()
def _group() -> None: ...


@app.command()
def element(
    folder: Annotated[Path, typer.Argument(help="Folder of the array.")],
    index: Annotated[int, typer.Argument(envvar="SLURM_ARRAY_TASK_ID", help="The element's number.")],
) -> None:
    """Compute one element of an array job that `wina study submit` made."""
    from wina_core.cluster.element import Stop, compute_element  # no other command needs it

    code = compute_element(folder, index, Stop())
    sys.stderr.flush()
    os._exit(code)  # at once: a library's leftover threads must not keep the element alive
