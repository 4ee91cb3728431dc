"""The order of jobs that wait: the same for an engine, its client and a pool. Pure."""

from collections.abc import Collection
from typing import TypeVar

T = TypeVar("T")


def put_ahead(queue: dict[str, T], job_id: str, job: T, ahead_of: Collection[str]) -> None:
    """Place a job right before the first of the named others that is in the queue, at its end where none is.

    Naming all others rather than one place makes this independent of what has begun or ended meanwhile.
    """
    queue.pop(job_id, None)
    order = list(queue) if ahead_of else []
    place = next((index for index, other in enumerate(order) if other in ahead_of), len(order))
    behind = {other: queue.pop(other) for other in order[place:]}
    queue[job_id] = job
    queue.update(behind)
