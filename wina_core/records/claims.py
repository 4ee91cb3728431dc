"""Runs that another program has queued or computes."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class TakenRun(NamedTuple):
    """A run that another living program has queued or is computing."""

    run: str
    user: str
    host: str


def being_computed(taken: Sequence[TakenRun]) -> str:
    """Say who computes runs: "3 runs are being computed by anna on gpu1"."""
    places = Counter((run.user, run.host) for run in taken)
    return " and ".join(
        f"{count:,} {'run is' if count == 1 else 'runs are'} being computed by {_name(*place)}"
        for place, count in places.items()
    )


def left_out(taken: Sequence[TakenRun]) -> str:
    """Return a sentence on runs that are left out because others compute them; empty for none."""
    if not taken:
        return ""
    return f"{being_computed(taken)}; {'it is' if len(taken) == 1 else 'they are'} left out."


def _name(user: str, host: str) -> str:
    return f"{user or 'another user'} on {host}" if host else "another program"
