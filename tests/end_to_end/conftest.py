"""The end-to-end tests use the window's own fixtures: a screenless Qt, folders of their own, nothing left behind."""

from tests.wina_app.conftest import home, nothing_left_behind, stall_watchdog

__all__ = ["home", "nothing_left_behind", "stall_watchdog"]
