"""Progress reporting and cooperative cancellation for jobs."""

from typing import Literal, Protocol

from wina_core.jobs.progress import Stage
from wina_core.records import RefinementStep

Level = Literal["debug", "info", "warning", "error"]


class Reporter(Protocol):
    """Receiver of a long computation's progress: the engine's connection, the terminal, or `NullReporter`."""

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


class NullReporter:
    """A reporter that ignores everything and never cancels."""

    def stage(self, name: Stage) -> None:
        """Do nothing."""

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        """Do nothing."""

    def refined(self, step: RefinementStep) -> None:
        """Do nothing."""

    def log(self, level: Level, text: str) -> None:
        """Ignore."""

    def check(self) -> None:
        """Do nothing."""
