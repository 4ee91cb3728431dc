"""Points of a sweep that are measured already, and those that a job would measure."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from wina_core.records import Environment
from wina_core.specs.latency import (
    AUTO,
    DecodePoint,
    DecodeSpec,
    LatencyPoint,
    LatencySpec,
    missing_points,
    with_backend,
)


@dataclass(frozen=True)
class JobPlan:
    """Points that a job would measure, and the stored points that it is given."""

    missing: int
    points: int
    stored: dict[str, tuple[str, ...]]
    """Hashes of stored points by `Environment.key`."""


def plan_job(
    spec: LatencySpec | DecodeSpec,
    environment: Environment | None,
    find: Callable[[Collection[str]], dict[str, tuple[str, ...]]],
    *,
    again: bool,
) -> JobPlan:
    """Return the plan of the job that measures a sweep: for the button, its title and the engine.

    `environment` is that of timings on the sweep's device. `find` looks hashes up in the store; with `again` it is not
    called.
    """
    # A sweep may name both "auto" and the backend that it comes to: both are one point.
    points = [_resolved(point, environment) for point in spec.points()]
    distinct, _ = missing_points(points, ())
    stored = {} if again else find(distinct)
    _, missing = missing_points(points, stored.get(environment.key, ()) if environment is not None else ())
    return JobPlan(len(missing), len(distinct), stored)


def _resolved(point: LatencyPoint | DecodePoint, environment: Environment | None) -> LatencyPoint | DecodePoint:
    """Return a point with the device's usual backend in place of "auto"."""
    if isinstance(point, DecodePoint) or environment is None:
        return point
    return with_backend(point, AUTO.get(environment.device, "reference"))
