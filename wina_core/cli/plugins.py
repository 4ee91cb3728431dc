"""`wina plugins`: what installed packages add to the workbench."""

import typer

from wina_core.cli.arguments import options
from wina_core.cli.tables import print_table
from wina_core.specs.allocations import ALLOCATOR_PLUGINS
from wina_core.specs.methods import METHOD_PLUGINS
from wina_core.specs.plugins import TASK_PLUGINS, Offer
from wina_core.specs.quantization import QUANTIZER_PLUGINS


def plugins(as_json: options.Json = False) -> None:
    """List the methods, allocators, quantizers and tasks of installed packages, and the problems of broken ones."""
    every = (METHOD_PLUGINS, ALLOCATOR_PLUGINS, QUANTIZER_PLUGINS, TASK_PLUGINS)
    offers = [offer for kind in every for offer in kind.offers()]
    if not offers and not as_json:
        typer.echo("No installed package adds to the workbench; the guide's page on plugins says how one does.")
        return
    rows = [(offer.kind, offer.name, offer.package, "left out" if offer.problem else "") for offer in offers]
    print_table(Offer._fields, offers if as_json else rows, as_json)
