"""Machines that compute the jobs of a command, and the question before a long job."""

import sys
from collections.abc import Sequence

import typer

from wina_core.api.running import announce_products, run_recorded
from wina_core.errors import WinaError
from wina_core.jobs import Job, ResultValue
from wina_core.remote.registry import find_place
from wina_core.specs.machine import LOCAL
from wina_core.store import Store


def machines_of(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the machines of `--machine`; none for this computer alone. Raises WinaError for an unknown machine."""
    chosen = tuple(dict.fromkeys(names or ()))
    for name in chosen:
        if name != LOCAL:
            find_place(name)
    return () if chosen == (LOCAL,) else chosen


def confirm_products(job: Job, machines: tuple[str, ...], yes: bool) -> None:
    """Name on stderr what a job computes first; ask on a terminal if that takes long, without `--yes`.

    Raises WinaError if the answer is no.
    """
    missing = announce_products(job, machines)
    if yes or not any(product.is_long for product in missing):
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not typer.confirm("Compute this first?", default=True, err=True):
        raise WinaError("Nothing was computed.")


def confirm_and_run(job: Job, machines: tuple[str, ...], yes: bool, database: str | None) -> ResultValue | None:
    """Run a job after `confirm_products`, store its results, and return what is not stored."""
    confirm_products(job, machines, yes)
    with Store(database) as store:
        return run_recorded(job, store, machines=machines).result
