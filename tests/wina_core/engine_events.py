"""What a client under test was told, to wait on and look through."""

import threading
from collections.abc import Callable
from typing import TypeVar

from wina_core.engine.protocol import Done, Event, Failed

E = TypeVar("E")
PATIENCE = 120.0
"""Seconds after which a test gives up; nothing is asserted about time itself."""


class Events:
    """A thread-safe list of events: the `on_event` of a client."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self._arrived = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._arrived:
            self.all.append(event)
            self._arrived.notify_all()

    def wait(self, kind: type[E], test: Callable[[E], bool] = lambda _: True) -> E:
        """The first event of a kind that passes the test, whether it has arrived or is to come."""
        found: list[E] = []

        def look() -> bool:
            found[:] = [event for event in self.all if isinstance(event, kind) and test(event)]
            return bool(found)

        with self._arrived:
            assert self._arrived.wait_for(look, PATIENCE), f"no {kind.__name__} among {self.all}"
        return found[0]

    def end(self, job_id: str) -> Done | Failed:
        """How a job ended."""
        return self.wait((Done, Failed), lambda event: event.job_id == job_id)  # type: ignore[arg-type]

    def of(self, job_id: str) -> list[Event]:
        """A job's events in order."""
        return [event for event in self.all if getattr(event, "job_id", None) == job_id]
