"""`wina results merge`: results of other databases."""

from typing import Annotated

import typer

from wina_core.cli.arguments import options
from wina_core.cli.results import app
from wina_core.cli.tables import print_table
from wina_core.cli.terminal import terminal_reporter
from wina_core.store import Store
from wina_core.store.merge import merge_database, open_source


@app.command()
def merge(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="SQLite files or SQLAlchemy URLs, which are only read.")
    ],
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Add the results of other databases to this one, which is made where it does not exist.

    Rows are matched by their hashes and names. What this database has stays; tags and pins are united. The same command
    completes a merge that was interrupted. Prints the rows added to each table.
    """
    for source in sources:
        with open_source(source):  # nothing is merged where one of them cannot be read
            pass
    added: dict[str, int] = {}
    with Store(database) as store, terminal_reporter() as reporter:

        def show(done: int, total: int) -> None:
            reporter.progress(done, total, "rows")
            reporter.check()

        for source in sources:
            for table, count in merge_database(source, store, show).items():
                added[table] = added.get(table, 0) + count
    print_table(("table", "added"), list(added.items()), as_json)
