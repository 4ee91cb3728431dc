"""`wina database`: copies, merges, backups and an overview of results databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli.arguments import options
from wina_core.cli.tables import print_table
from wina_core.cli.terminal import terminal_reporter
from wina_core.files import paths
from wina_core.store.connection import parse_url, place_of
from wina_core.store.copying.backup import back_up_database
from wina_core.store.copying.merge import OnProgress, TableReport, copy_database
from wina_core.store.copying.overview import describe_database
from wina_core.store.copying.source import existing_file

_PLACE = "An SQLite file or an SQLAlchemy URL"
app = typer.Typer(help="Copy, merge and back up results databases.", no_args_is_help=True)


def copy(
    source: Annotated[str, typer.Argument(help=f"{_PLACE}, which is only read.")],
    target: Annotated[str, typer.Argument(help=f"{_PLACE}; made where it does not exist.")],
    as_json: options.Json = False,
) -> None:
    """Copy a database into another, between SQLite and PostgreSQL in both directions.

    Rows are matched by their identity: models, rotations, studies and runs by their hashes, a run's units by their
    names. A newer unit, rotation, timing or plan replaces an older one; of equally old ones of different content one
    is chosen by its digest. The tags, pins and notes of both are kept. A run that is deleted in either database is
    deleted, unless the other computed it later. Jobs that have not ended stay behind.

    The source is only read. The same command completes a copy that was interrupted, and changes nothing otherwise. At
    the end all is read again and compared.
    """
    with _progress() as on_progress:
        reports = copy_database(source, target, on_progress)
    _print(reports, source, target, as_json)


def merge(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help=f"{_PLACE}, which is only read.")],
    into: Annotated[str, typer.Option(metavar="TARGET", help=f"{_PLACE}; made where it does not exist.")],
    as_json: options.Json = False,
) -> None:
    """Merge databases into one, one after the other, by the rules of `wina database copy`."""
    for source in sources:
        existing_file(parse_url(source))
    for source in sources:
        with _progress() as on_progress:
            reports = copy_database(source, into, on_progress)
        _print(reports, source, into, as_json)


def backup(
    file: Annotated[
        Path | None, typer.Argument(help="A new file; by default named after the database and the time.")
    ] = None,
    database: options.Database = None,
) -> None:
    """Copy a database to a new file, while others may write to it.

    The file opens as a database. Of a PostgreSQL database it is an SQLite copy, read again and compared.
    """
    with _progress() as on_progress:
        saved = back_up_database(database or paths.database(), file, on_progress)
    typer.echo(saved)


def info(database: options.Database = None, as_json: options.Json = False) -> None:
    """Print where a database is, its schema version and the number of rows of each table."""
    found = describe_database(database or paths.database())
    lines: list[tuple[object, ...]] = [
        ("place", found.place), ("kind", found.kind), ("schema", found.schema), ("bytes", found.size),
        *found.rows.items(),
    ]  # fmt: skip
    print_table(("property", "value"), lines, as_json)


for command in (copy, merge, backup, info):
    app.command()(command)


@contextmanager
def _progress() -> Iterator[OnProgress]:
    with terminal_reporter() as reporter:

        def show(done: int, total: int) -> None:
            reporter.progress(done, total, "rows")
            reporter.check()

        yield show


def _print(reports: list[TableReport], source: str, target: str, as_json: bool) -> None:
    print_table(TableReport._fields, reports, as_json)
    places = f"{place_of(parse_url(source))} and {place_of(parse_url(target))}"
    typer.echo(f"Verified: {places} agree in all rows that were compared.", err=True)
