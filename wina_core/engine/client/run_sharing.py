"""How the runs of one job are shared out among engines, and what is known of each part. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil

from wina_core.engine.client.progress import Eta, Throttle
from wina_core.engine.protocol import Failed, Job, PendingRun
from wina_core.specs import ModelSource, RotationSpec

Group = tuple[ModelSource, RotationSpec]


def group_of(run: PendingRun) -> Group:
    """The rotated model that a run needs."""
    return run.spec.model, run.spec.rotation


class Shares:
    """The runs that no engine has yet, grouped by rotated model, which an engine has to make before it measures.

    A group is handed out whole while at least as many groups wait as there are engines. The last ones go in pieces, so
    that no engine is left alone with the end: each piece is the group's fair share of what is left of it.
    """

    def __init__(self, runs: Iterable[PendingRun], engines: int) -> None:
        self._groups: dict[Group, list[PendingRun]] = {}
        self._engines = engines
        self.put_back(runs)

    def __bool__(self) -> bool:
        return bool(self._groups)

    def put_back(self, runs: Iterable[PendingRun]) -> None:
        """Share these out too."""
        for run in runs:
            self._groups.setdefault(group_of(run), []).append(run)

    def take(self, held: Group | None) -> tuple[PendingRun, ...]:
        """The next runs for an engine, of the model that it holds where some are left; none at the end."""
        if not self._groups:
            return ()
        group = held if held in self._groups else next(iter(self._groups))
        runs = self._groups[group]
        size = len(runs) if len(self._groups) >= self._engines else ceil(len(runs) / self._engines)
        self._groups[group] = runs[size:]
        if not self._groups[group]:
            del self._groups[group]
        return tuple(runs[:size])


@dataclass
class Part:
    """What one engine does of a job."""

    id: str
    whole: "SharedJob"
    runs: tuple[PendingRun, ...]
    """Of an EvaluateJob that is shared out; empty for any other."""
    progress: float = 0.0
    run: str | None = None
    """The run that is being computed."""
    ended: set[str] = field(default_factory=set)
    """The runs that were computed, or failed."""
    held: bool = False

    @property
    def units(self) -> int:
        """Measurements of the runs that have ended."""
        return sum(len(run.units) for run in self.runs if run.spec.content_hash() in self.ended)


@dataclass
class SharedJob:
    """A job as the pool's client knows it."""

    id: str
    job: Job
    shares: Shares | None
    """What no engine has yet of a job that is shared out; None for one that goes to one engine as it is."""
    parts: list[Part] = field(default_factory=list)
    """What engines are doing now."""
    begun: bool = False
    cancelled: bool = False
    cut: bool = False
    """Something was left out because of that."""
    paused: bool = False
    held: bool = False
    failure: Failed | None = None
    """How a part ended that came to no run at all, or the one part of a job that is not shared out."""
    unreached: list[str] = field(default_factory=list)
    """The runs of such parts."""
    any_run: bool = False
    """An engine came to one of its runs."""
    units: int = 0
    """Measurements of runs that have ended, in parts that have."""
    eta: Eta = field(default_factory=Eta)
    throttle: Throttle = field(default_factory=Throttle)
    held_since: float = 0.0
    held_seconds: float = 0.0

    @property
    def waiting(self) -> bool:
        """Whether there is something that an engine could begin."""
        return not self.cancelled and (bool(self.shares) if self.shares is not None else not self.begun)
