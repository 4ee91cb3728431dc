"""Commands of `wina results` on runs: annotations, deletion, experts, and merging of databases."""

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from wina_core.api.progress import terminal_reporter
from wina_core.api.stored import filtered, named_runs
from wina_core.cli import options
from wina_core.cli.results import LISTED, Filter, app
from wina_core.cli.tables import counted, print_table
from wina_core.errors import WinaError
from wina_core.records import (
    EXPERT_SHARE,
    EXPERT_SPARSITY,
    EXPERT_THRESHOLD,
)
from wina_core.records.texts import moment
from wina_core.store import MetricFilter, Store
from wina_core.store.annotations import RunAnnotations, split_tags
from wina_core.store.merge import merge_database, open_source
from wina_core.store.rows import CellStat

Runs = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN", help="Beginnings of hashes; `wina results --annotations` lists them."),
]

_MOST_NAMED = 3
_METRICS = {"sparsity": EXPERT_SPARSITY, "share of tokens": EXPERT_SHARE, "threshold": EXPERT_THRESHOLD}
"""Metrics of an expert in a run, by their columns."""


@app.command()
def tag(
    runs: Runs = None,
    add: Annotated[str, typer.Option(help="Tags to add, comma-separated.")] = "",
    remove: Annotated[str, typer.Option(help="Tags to remove, comma-separated.")] = "",
    line: Filter = "",
    database: options.Database = None,
) -> None:
    """Add or remove tags of runs."""
    if not split_tags(add) and not split_tags(remove):
        raise WinaError("No tag is named; use --add best,report or --remove best.")

    def change(annotations: RunAnnotations) -> RunAnnotations:
        return annotations._replace(
            tags=tuple((set(annotations.tags) | set(split_tags(add))) - set(split_tags(remove)))
        )

    _annotate(database, runs, line, "tags", change)


@app.command()
def note(
    text: Annotated[str, typer.Argument(help="The note; an empty text removes it.")],
    runs: Runs = None,
    line: Filter = "",
    database: options.Database = None,
) -> None:
    """Write a note on runs."""
    _annotate(database, runs, line, "note", lambda annotations: annotations._replace(note=text))


@app.command()
def pin(
    runs: Runs = None,
    off: Annotated[bool, typer.Option("--off", help="Unpin the runs.")] = False,
    line: Filter = "",
    database: options.Database = None,
) -> None:
    """Pin runs to the top of lists."""
    _annotate(database, runs, line, "pinned", lambda annotations: annotations._replace(pinned=not off))


@app.command()
def delete(runs: Runs = None, line: Filter = "", database: options.Database = None) -> None:
    """Delete runs. Their results are not reused; `restore` brings them back, `purge` erases them."""
    with Store(database) as store:
        chosen = _chosen(store, runs, line)
        store.delete_runs(chosen)
    others = ", and the others that `wina results deleted` lists" if len(chosen) > _MOST_NAMED else ""
    command = f"wina results restore {' '.join(chosen[:_MOST_NAMED])}"
    typer.echo(f"{counted(len(chosen), 'run')} deleted; bring back with: {command}{others}", err=True)


@app.command()
def deleted(database: options.Database = None, as_json: options.Json = False) -> None:
    """List deleted runs, which can be restored."""
    with Store(database) as store:
        rows = store.deleted_runs()
    columns = ["run", "model", "configuration", "plan", "target", "deleted"]
    print_table(columns, [[*row[:-1], moment(row.deleted)] for row in rows], as_json)


@app.command()
def restore(
    runs: Runs = None,
    everything: Annotated[bool, typer.Option("--all", help="Restore all deleted runs.")] = False,
    database: options.Database = None,
) -> None:
    """Restore deleted runs with their results."""
    with Store(database) as store:
        deleted = [row.run for row in store.deleted_runs()]
        chosen = deleted if everything else named_runs(runs or [], deleted, "deleted run", LISTED)
        store.restore_runs(chosen)
    typer.echo(f"{counted(len(chosen), 'run')} restored.", err=True)


@app.command()
def purge(
    yes: Annotated[bool, typer.Option("--yes", help="Erase without asking.")] = False, database: options.Database = None
) -> None:
    """Erase deleted runs for good."""
    with Store(database) as store:
        count = len(store.deleted_runs())
        if count and not yes:
            typer.confirm(f"Erase {counted(count, 'run')} with all numbers for good?", abort=True)
        count = store.purge_deleted()
    typer.echo(f"{counted(count, 'run')} erased.", err=True)


def _annotate(
    database: str | None,
    runs: list[str] | None,
    line: str,
    field: str,
    change: Callable[[RunAnnotations], RunAnnotations],
) -> None:
    # Only that field is written: a window may write the others meanwhile.
    with Store(database) as store:
        details = store.run_details()
        chosen = _chosen(store, runs, line)
        before = {
            run: RunAnnotations(split_tags(details[run].tags), details[run].note, details[run].pinned) for run in chosen
        }
        store.annotate_runs({run: change(annotations) for run, annotations in before.items()}, (field,), seen=before)
    typer.echo(f"{counted(len(chosen), 'run')} marked.", err=True)


def _chosen(store: Store, runs: list[str] | None, line: str) -> list[str]:
    """Return runs by the beginnings of their hashes or, without any, those with a metric that passes the line."""
    if runs:
        return named_runs(runs, list(store.run_details()), advice=LISTED)
    if not line:
        raise WinaError("No run is named; give beginnings of hashes, or a --filter.")
    matching = list(dict.fromkeys(row.run for row in filtered(store, MetricFilter(), line)))
    if not matching:
        raise WinaError(f'No stored run passes the filter "{line}".')
    return matching


@app.command()
def experts(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Beginning of a hash; `wina results --annotations` lists them.")
    ],
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Print what each expert of a run dropped, the share of tokens that read it, and its threshold."""
    with Store(database) as store:
        (name,) = named_runs([run], list(store.run_details()), advice=LISTED)
        rows = _rows(store.expert_stats(name))
    if not rows:
        raise WinaError(
            f"The run {name} has no numbers of experts: its model has no experts, or an earlier version measured it; "
            "measure it again with --recompute."
        )
    print_table(("layer", "expert", "projection", *_METRICS), rows, as_json)


def _rows(stats: Iterable[CellStat]) -> list[tuple[int | str | float | None, ...]]:
    metrics: dict[tuple[int, int, str], dict[str, float]] = {}
    for row in stats:
        if row.x is not None:
            metrics.setdefault((row.layer, int(row.x), row.projection), {})[row.metric] = row.value
    cells = sorted(metrics, key=lambda cell: cell[:2])
    return [(*cell, *(metrics[cell].get(metric) for metric in _METRICS.values())) for cell in cells]


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
