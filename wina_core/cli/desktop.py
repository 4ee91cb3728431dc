"""`wina desktop`: the workbench in the menu of a Linux desktop, for this user alone."""

import typer

from wina_core.files import desktop_entry

app = typer.Typer(help="Put the workbench into the menu of a Linux desktop, or remove it.", no_args_is_help=True)


@app.command()
def install() -> None:
    """Add the menu entry, the icon, and the window as the program for *.wina.json and *.wina.toml files."""
    for file in desktop_entry.install():
        typer.echo(file)


@app.command()
def remove() -> None:
    """Delete what `wina desktop install` wrote."""
    for file in desktop_entry.remove():
        typer.echo(file)
