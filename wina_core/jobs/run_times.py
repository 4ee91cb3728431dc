"""The usual seconds of each kind of measurement of an evaluation."""

from collections import defaultdict
from collections.abc import Iterable

from wina_core.jobs.job_specs import PendingRun
from wina_core.records import UnitRecord
from wina_core.specs import COST, DENSE


class RunTimes:
    """Seconds of the measurements that have arrived, by unit and by whether gates were on."""

    def __init__(self, runs: Iterable[PendingRun]) -> None:
        self._kinds: dict[tuple[str, str], str] = {}
        self._times: defaultdict[str, list[float]] = defaultdict(list)
        for run in runs:
            gated = "" if run.spec.method.name == DENSE.name else " gated"
            name = run.spec.content_hash()
            self._kinds |= {(name, unit): f"{unit}{gated}" for unit in run.units}

    def add(self, unit: UnitRecord) -> None:
        """Count a measurement that has arrived."""
        kind = self._kinds.pop((unit.run, unit.unit), None)
        if kind is not None:
            self._times[kind].append(unit.seconds)

    def usual(self, run: PendingRun) -> float | None:
        """Return the mean seconds of a run's next measurement; None if none of its kind has arrived."""
        name = run.spec.content_hash()
        kinds = (self._kinds.get((name, unit), COST) for unit in run.units)
        times = self._times.get(next((kind for kind in kinds if not kind.startswith(COST)), ""))
        return sum(times) / len(times) if times else None
