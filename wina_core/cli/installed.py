"""`wina tasks` and `wina plugins`: what is installed here."""

import subprocess
from typing import Annotated

import typer

from wina_core.cli import options
from wina_core.cli.tables import print_table
from wina_core.errors import WinaError
from wina_core.files.own_command import own_command
from wina_core.specs.allocations import ALLOCATOR_PLUGINS
from wina_core.specs.methods import METHOD_PLUGINS
from wina_core.specs.plugins import TASK_PLUGINS, Offer
from wina_core.specs.quantization import QUANTIZER_PLUGINS
from wina_core.studies.tasks.index import TaskEntry, TaskIndex, index_file, load_index, searchable
from wina_core.studies.tasks.task_folder import RISK, sandbox_rules


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
    entries = index.search(query, limit)
    if not entries:
        raise WinaError(f'No lm-eval task matches "{query}"; try a part of its name.')
    print_table(TaskEntry._fields[:3], [entry[:3] for entry in entries], as_json)
    if len(entries) == limit < len(index.entries):
        typer.echo(f"The first {limit} of {len(index.entries):,} names; --limit shows more.", err=True)


def _built() -> TaskIndex:
    typer.echo("Listing lm-eval's tasks once, which takes some 20 seconds...", err=True)
    subprocess.run(own_command("wina_core.compute.evaluation.index"), check=False)
    index = load_index()
    if index is None:
        raise WinaError(f"lm-eval's tasks could not be listed in {index_file()}; see the messages above.")
    return index


def plugins(as_json: options.Json = False) -> None:
    """List the methods, allocators, quantizers and tasks of installed packages, and the problems of broken ones."""
    every = (METHOD_PLUGINS, ALLOCATOR_PLUGINS, QUANTIZER_PLUGINS, TASK_PLUGINS)
    offers = [offer for kind in every for offer in kind.offers()]
    if not offers and not as_json:
        typer.echo("No installed package adds to the workbench; the guide's page on plugins says how one does.")
        return
    rows = [(offer.kind, offer.name, offer.package, "left out" if offer.problem else "") for offer in offers]
    print_table(Offer._fields, offers if as_json else rows, as_json)
