"""`wina remote`: what this program does for one on another computer, over ssh."""

from typing import Annotated

import typer

app = typer.Typer(help="Work for a program on another computer; made for ssh.", no_args_is_help=True)


@app.command()
def ask() -> None:
    """Answer questions on stdin, one line of JSON each."""
    from wina_core.jobs.streams import take_standard_streams
    from wina_core.remote.machines.answers import serve

    serve(*take_standard_streams())


@app.command()
def attach(
    session: Annotated[str, typer.Argument(help="Name of the session.")],
    place: Annotated[int, typer.Argument(help="Number of the engine among those of this machine, from 0.")] = 0,
    count: Annotated[int, typer.Argument(help="Number of engines that share this machine.", min=1)] = 1,
) -> None:
    """Connect the standard streams to the engine that is kept for a session."""
    from wina_core.remote.engine.attach import attach as join

    join(session, place, count)
