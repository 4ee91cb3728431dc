"""One engine process for the windows of several tests: to start one takes longer than most of what it computes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import Event, Ready


class LentEngine(EnginePool):
    """An engine that outlives the windows that work with it."""

    def __init__(self) -> None:
        super().__init__(self._hand_on)
        self.ready: Ready | None = None
        self._window: Callable[[Event], None] = lambda _: None

    def lend(self, on_event: Callable[[Event], None]) -> "LentEngine":
        """To one window after the other."""
        self._window = on_event
        return self

    def start(self) -> None:
        """The first time; after that it is ready."""
        if self.ready is None:
            super().start()
        else:
            self._window(self.ready)

    def stop(self) -> None:
        """The window has gone; its jobs have ended before."""
        self._window = lambda _: None

    def end(self) -> None:
        """Stop the process."""
        super().stop()

    def _hand_on(self, event: Event) -> None:
        if isinstance(event, Ready):
            self.ready = event
        self._window(event)


@contextmanager
def lent_engine(home: Path) -> Iterator[LentEngine]:
    """An engine with a WINA_HOME of its own that is ready: its imports would stall the first window."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINA_HOME", str(home))
        lent = LentEngine()
        lent.start()
        while lent.ready is None:
            time.sleep(0.01)
    yield lent
    lent.end()
