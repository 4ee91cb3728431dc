"""`wina remote`: what other machines ask of this one over ssh; no command for people."""

import os
import sys
from typing import Annotated

import typer

app = typer.Typer(hidden=True, no_args_is_help=True)


@app.callback()
def _group() -> None: ...


@app.command()
def attach(session: Annotated[str, typer.Argument(help="Name of the session.")]) -> None:
    """Connect the standard streams to the engine that is kept for a session."""
    from wina_core.engine.remote.attach import attach as pump

    pump(session)
    sys.stdout.flush()
    os._exit(0)
