"""Waiting while a window's event loop runs."""

import time
from collections.abc import Callable
from typing import Any


def wait(app: Any, done: Callable[[], bool], *, longest_s: float = 120.0, pause_s: float = 0.005) -> None:
    """Handle the application's events until `done()`. Raises RuntimeError after `longest_s` seconds."""
    end = time.monotonic() + longest_s
    while not done():
        if time.monotonic() > end:
            raise RuntimeError(f"The window did not get on within {longest_s:g} s.")
        app.processEvents()
        time.sleep(pause_s)
