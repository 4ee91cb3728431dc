"""The remaining time of an evaluation's runs, by the seconds of each kind of measurement."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from wina_core.engine.protocol.jobs import PendingRun
from wina_core.engine.protocol.progress import Steady
from wina_core.records import UnitRecord
from wina_core.specs import COST, DENSE


class RunTimes:
    """Mean seconds of the measurements that have arrived, by unit and by whether gates were on."""

    def __init__(self, runs: Iterable[PendingRun]) -> None:
        self._kinds: dict[tuple[str, str], str] = {}
        self._missing: Counter[str] = Counter()
        self._times: defaultdict[str, list[float]] = defaultdict(list)
        self._steady = Steady()
        self._last = ""
        for run in runs:
            gated = "" if run.spec.method.name == DENSE.name else " gated"
            name = run.spec.content_hash()
            for unit in run.units:
                self._kinds[name, unit] = f"{unit}{gated}"
                self._missing[f"{unit}{gated}"] += 1

    def add(self, unit: UnitRecord) -> None:
        """Count a measurement that has arrived."""
        kind = self._kinds.pop((unit.run, unit.unit), None)
        if kind is not None:
            self._missing[kind] -= 1
            self._times[kind].append(unit.seconds)
            self._last = unit.unit

    def skip(self, run: str) -> None:
        """Count no more the measurements of a run that has ended."""
        for key in [key for key in self._kinds if key[0] == run]:
            self._missing[self._kinds.pop(key)] -= 1

    def usual(self, run: PendingRun) -> float | None:
        """Return the mean seconds of a run's next measurement; None if none of its kind has arrived."""
        name = run.spec.content_hash()
        kinds = (self._kinds.get((name, unit), COST) for unit in run.units)
        times = self._times.get(next((kind for kind in kinds if not kind.startswith(COST)), ""))
        return sum(times) / len(times) if times else None

    def remaining(self, in_flight: float, engines: int) -> float | None:
        """Return the seconds until all have arrived, `in_flight` of them done by now (a sum of fractions).

        A kind that has not been measured counts as the mean of the others, the cost, which is arithmetic, as nothing.
        None before the first measurement that takes time.
        """
        means = {kind: sum(times) / len(times) for kind, times in self._times.items() if not kind.startswith(COST)}
        if not means:
            return None
        usual = sum(means.values()) / len(means)
        left = sum(count * means.get(kind, usual) for kind, count in self._missing.items() if not kind.startswith(COST))
        return max(0.0, left - in_flight * usual) / max(1, engines)

    def changed(self, now: float, seconds: float) -> str:
        """Return the reason where the estimate has moved by more than half since it was steady."""
        return self._steady.change(now, seconds, self._last)
