"""Python's collector of cycles, kept away from rows by the hundred thousand, none of which is in a cycle.

It goes through all objects there are time and again, and holds every thread meanwhile: of 100,000 rows for 0.1 s.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collected() -> Iterator[None]:
    """While rows are made, which would set off collection after collection."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class Kept:
    """Rows that stay, to be left alone by later collections; they are still freed once nobody refers to them."""

    STEP = 5_000
    """New rows for which it is worth it: garbage in cycles that is there at the time stays for good."""

    def __init__(self) -> None:
        self._rows = 0

    def leave_alone(self, rows: int) -> None:
        """There are this many rows now."""
        if rows - self._rows >= self.STEP:
            gc.freeze()
            self._rows = rows
