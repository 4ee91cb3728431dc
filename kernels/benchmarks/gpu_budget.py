"""Time that a part of the GPU's benchmark may take, kept by measuring less often and, at last, by leaving cases out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

LEAST_TURNS = 3


@dataclass
class Budget:
    """Seconds from now on."""

    seconds: float
    _start: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        """Seconds that are left, possibly negative."""
        return self.seconds - (time.perf_counter() - self._start)

    def one_of(self, count: int) -> Budget:
        """Return an equal share of what is left for the next of `count` cases."""
        return Budget(self.left / count)

    def turns(self, most: int) -> Iterator[int]:
        """Yield 0, 1, ... up to `most` turns: at least LEAST_TURNS of them, and no more that would not end in time."""
        begun = time.perf_counter()
        for turn in range(most):
            each = (time.perf_counter() - begun) / max(turn, 1)
            if turn >= LEAST_TURNS and self.left < each:
                return
            yield turn
