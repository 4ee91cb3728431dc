"""Progress reporting and cooperative cancellation for jobs."""

from typing import Literal

from wina_core.jobs.progress import Stage
from wina_core.records import RefinementStep

Level = Literal["debug", "info", "warning", "error"]


class Reporter:
    """Receiver of a long computation's progress: the engine's connection, the terminal; this one ignores everything."""

    def stage(self, name: Stage) -> None:
        """Begin the stage with this name, unless it is the current one; later progress is that of this stage."""

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        """Report `done` of `total` `unit`s; cheap enough to call once a batch."""

    def refined(self, step: RefinementStep) -> None:
        """Report a step of a refinement."""

    def log(self, level: Level, text: str) -> None:
        """Write a line to the log."""

    def check(self) -> None:
        """Raise `wina_core.errors.Cancelled` after a cancellation; called between batches."""


NullReporter = Reporter
