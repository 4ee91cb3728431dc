"""The products that a command would compute first: one line on stderr, and a question where they take long."""

import sys
from contextvars import ContextVar

import typer

from wina_core.cli.places import runs_elsewhere
from wina_core.errors import WinaError
from wina_core.jobs import Job
from wina_core.jobs.planning.memory_needs import memory_needs
from wina_core.jobs.planning.products import MissingProduct, missing_products

ANSWERED: ContextVar[bool] = ContextVar("answered", default=False)
"""Whether what `announce_products` asks is answered with yes."""


def accept(yes: bool) -> bool:
    """Keep the answer of `--yes` for `announce_products`."""
    ANSWERED.set(yes)
    return yes


def announce_memory(job: Job) -> None:
    """Name the models that memory does not hold, and what they take instead; nothing for a job of other machines."""
    if runs_elsewhere():
        return
    for need in memory_needs(job):
        typer.echo(need.text, err=True)


def announce_products(job: Job) -> None:
    """Name models that memory does not hold and products that a job computes first; ask on a terminal if one is long.

    Nothing is known of a job of other machines alone. Raises WinaError if the answer is no.
    """
    if runs_elsewhere():
        return
    announce_memory(job)
    missing = missing_products(job)
    if not missing:
        return
    typer.echo(f"Not on disk, computed first: {'; '.join(map(_text, missing))}.", err=True)
    if ANSWERED.get() or not any(each.is_long for each in missing):
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not typer.confirm("Compute this first?", default=True, err=True):
        raise WinaError("Nothing was computed.")


def _text(product: MissingProduct) -> str:
    parts = []
    if product.seconds is not None:
        minutes, seconds = divmod(round(product.seconds), 60)
        parts.append(f"took {minutes}:{seconds:02} before")
    if product.begun:
        parts.append("continues where it was interrupted")
    return f"{product.kind} {product.label}" + (f" ({', '.join(parts)})" if parts else "")
