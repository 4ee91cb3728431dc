"""How a job tells how far it is, and asks whether to go on."""

from typing import Literal, Protocol

Level = Literal["debug", "info", "warning", "error"]


class Reporter(Protocol):
    """Given to every long computation; its implementations are the engine's wire, the terminal, and `NullReporter`."""

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        """`done` of `total` `unit`s; cheap, so it may be called once a batch."""

    def log(self, level: Level, text: str) -> None:
        """A line for the log."""

    def check(self) -> None:
        """Raise `wina_core.errors.Cancelled` if cancellation was asked for; called between batches."""


class NullReporter:
    """Reports nothing and never cancels."""

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        """Ignore."""

    def log(self, level: Level, text: str) -> None:
        """Ignore."""

    def check(self) -> None:
        """Never cancelled."""
