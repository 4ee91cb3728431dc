"""Sequences of a million numbers and of their texts, in little memory."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

PART = 65_536
"""Numbers whose texts are made at once."""


class Numbers(Sequence[float | None]):
    """Numbers as Python's own, made when they are read; None for NaN."""

    def __init__(self, numbers: NDArray[np.float64]) -> None:
        self.array = numbers

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, place: int) -> float | None: ...
    @overload
    def __getitem__(self, place: slice) -> "Numbers": ...
    def __getitem__(self, place: int | slice) -> "float | Numbers | None":
        if isinstance(place, slice):
            return Numbers(self.array[place])
        number = float(self.array[place])
        return None if math.isnan(number) else number


class NumberTexts(Sequence[str]):
    """Texts of numbers in one buffer: a million strings of Python's would take five times the memory."""

    def __init__(self, texts: Callable[[slice], list[str]], count: int) -> None:
        """`texts` makes the texts of some of the `count` numbers."""
        import pyarrow  # a tenth of a second, and pandas has loaded it

        parts = (texts(slice(start, start + PART)) for start in range(0, count, PART))
        self._parts = pyarrow.chunked_array(list(map(pyarrow.array, parts)), pyarrow.string())

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        found = self._parts[place]
        return found.to_pylist() if isinstance(place, slice) else found.as_py()

    def __iter__(self) -> Iterator[str]:
        return (text for start in range(0, len(self), PART) for text in self[start : start + PART])

    def containing(self, text: str) -> NDArray[np.bool_]:
        """Return a mask of the numbers whose text contains this text."""
        from pyarrow import compute

        return np.asarray(compute.match_substring(self._parts, text))
