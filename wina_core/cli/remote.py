"""`wina remote`: what this program does for one on another computer, over ssh."""

import typer

app = typer.Typer(help="Work for a program on another computer; made for ssh.", no_args_is_help=True)


@app.command()
def ask() -> None:
    """Answer questions on stdin, one line of JSON each."""
    from wina_core.jobs.streams import take_standard_streams
    from wina_core.remote.machines.answers import serve

    serve(*take_standard_streams())
