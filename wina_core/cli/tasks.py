"""`wina tasks`: search of lm-eval's task names."""

import subprocess
from typing import Annotated

import typer

from wina_core.cli.arguments import options
from wina_core.cli.tables import print_table
from wina_core.errors import WinaError
from wina_core.files.own_command import own_command
from wina_core.studies.tasks.code_risk import RISK, sandbox_rules
from wina_core.studies.tasks.index import TaskEntry, TaskIndex, index_file, load_index, searchable


def tasks(
    query: Annotated[str, typer.Argument(help="Words of the name; similar spellings match too.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Largest number of names to print.")] = 30,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Print the rules of the sandbox for programs that a model writes instead.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Search the tasks, groups and tags of lm-eval and of installed packages.

    The first search lists lm-eval's, which takes some 20 seconds.
    """
    if sandbox:
        typer.echo(f"{RISK}\n{sandbox_rules()}")
        return
    index = searchable(load_index() or _built())
    found = index.search(query, limit)
    if not found:
        raise WinaError(f'No lm-eval task matches "{query}"; try a part of its name.')
    print_table(TaskEntry._fields[:3], [entry[:3] for entry in found], as_json)
    if len(found) == limit < len(index.entries):
        typer.echo(f"The first {limit} of {len(index.entries):,} names; --limit shows more.", err=True)


def _built() -> TaskIndex:
    typer.echo("Listing lm-eval's tasks once, which takes some 20 seconds...", err=True)
    subprocess.run(own_command("wina_core.compute.evaluation.index"), check=False)
    index = load_index()
    if index is None:
        raise WinaError(f"lm-eval's tasks could not be listed in {index_file()}; see the messages above.")
    return index
