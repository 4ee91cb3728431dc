"""Runs of two databases as one: neither results nor anything that a user wrote on a run is lost."""

from typing import Any

from sqlalchemy import Connection, func, select, update

from wina_core.records import ACTIVE
from wina_core.store.annotation_texts import join_tags, split_tags
from wina_core.store.copying.entry import Entry, Kind, Values
from wina_core.store.tables import Run, Unit

NOT_FINISHED = "It was not finished when it was copied; run it again to compute what is missing."
_STATE = ("status", "error", "user", "host", "environment_id", "started", "finished")
_MERGED = frozenset({*_STATE, "created", "tags", "note", "pinned", "deleted", "superseded"})


def copied_run(values: Values) -> Values:
    """Return a source's run as it is copied: no program of the target computes it, so it is interrupted."""
    if values["status"] not in ACTIVE:
        return values
    return {**values, "status": "interrupted", "error": NOT_FINISHED, "finished": _time(values)}


def combine_runs(kind: Kind, source: Entry, target: Entry) -> Entry:
    """Return a run of both databases.

    Its state is that of the one that is done, else of the newer; one that the target queues or computes stays as it
    is. Tags are united, a pin in either stays, and different notes follow each other. It is deleted if it is in either,
    unless the other ended after that.
    """
    ours, theirs = _without_nul(target.values), _without_nul(source.values)
    state = ours if ours["status"] in ACTIVE else max(ours, theirs, key=_state_key)
    fixed = max(ours, theirs, key=lambda values: repr([values[name] for name in kind.columns if name not in _MERGED]))
    merged: dict[str, Any] = {name: state[name] if name in _STATE else fixed[name] for name in kind.columns}
    merged |= {
        "created": min(ours["created"], theirs["created"]),
        "tags": join_tags({*split_tags(ours["tags"]), *split_tags(theirs["tags"])}),
        "note": _notes(ours["note"], theirs["note"]),
        "pinned": ours["pinned"] or theirs["pinned"],
        "deleted": _deleted(ours, theirs),
        "superseded": max(ours["superseded"], theirs["superseded"]),
    }
    return kind.entry(target.id, merged)


def complete_runs(connection: Connection, hashes: list[str]) -> None:
    """Mark those of these runs as done whose units, of both databases together, are complete."""
    of_run = Unit.run_id == Run.id
    stored = select(func.count(Unit.id)).where(of_run).correlate(Run).scalar_subquery()
    last = select(func.max(Unit.finished)).where(of_run).correlate(Run).scalar_subquery()
    complete = Run.hash.in_(hashes) & (Run.status != "done") & (Run.unit_count > 0) & (stored == Run.unit_count)
    connection.execute(update(Run).where(complete).values(status="done", error="", finished=last))


def _without_nul(values: Values) -> Values:
    """Return texts as PostgreSQL stores them, or the same note would count as two."""
    return {name: each.replace("\0", "\ufffd") if isinstance(each, str) else each for name, each in values.items()}


def _time(values: Values) -> float:
    """Return the time of the last change of a run's state."""
    return float(next(values[name] for name in ("finished", "started", "created") if values[name] is not None))


def _state_key(values: Values) -> tuple[bool, float, str]:
    return values["status"] == "done", _time(values), repr([values[name] for name in _STATE])


def _notes(first: str, second: str) -> str:
    if first in second or second in first:
        return max(first, second, key=len)
    return "\n".join(sorted((first, second)))


def _deleted(first: Values, second: Values) -> float | None:
    """Return the time of the last deletion; None where a run that is not deleted ended after it."""
    last = max((each["deleted"] for each in (first, second) if each["deleted"] is not None), default=None)
    ended = [_time(each) for each in (first, second) if each["deleted"] is None]
    return None if last is None or any(time > last for time in ended) else float(last)
