"""Rounding by the standard error: two significant digits of it, and its value to the same place."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from wina_core.records.texts import UNKNOWN, number, with_minus

ERROR_DIGITS = 2
"""Significant digits of a standard error."""
PLAIN_DIGITS = 4
"""Significant digits of a value without a standard error."""
_MOST_DECIMALS = 8
_LARGEST = 1e9
"""Numbers from here on have an exponent."""

Floats = NDArray[np.float64]


def decimals_of(values: Floats, stderrs: Floats) -> int:
    """Return the decimals of a column: of its median standard error, or without any of its median magnitude."""
    for numbers, digits in ((stderrs, ERROR_DIGITS), (values, PLAIN_DIGITS)):
        known = np.abs(numbers[np.isfinite(numbers) & (numbers != 0)])
        if len(known):
            if digits == PLAIN_DIGITS and (known == np.round(known)).all():
                return 0
            return _decimals(float(np.median(known)), digits)
    return 0


def value_text(value: float | None, decimals: int, stderr: float | None = None) -> str:
    """Format a value; with a standard error it may round to zero, without one it keeps two significant digits."""
    if value is None or math.isnan(value):
        return "nan"
    if not math.isfinite(value) or abs(value) >= _LARGEST:
        return number(value)
    if stderr is None and value != 0 and abs(value) < 0.95 * 10.0 ** (1 - decimals):
        return with_minus(f"{value:.{ERROR_DIGITS}g}")
    text = f"{value:.{decimals}f}"
    return with_minus(text if float(text) else text.lstrip("-"))


def error_at(stderr: float | None, decimals: int) -> str:
    """Format a standard error beside a value with these decimals; one that would vanish keeps a digit."""
    if stderr is None or math.isnan(stderr):
        return UNKNOWN
    if not math.isfinite(stderr) or stderr >= _LARGEST:
        return number(stderr)
    text = f"{stderr:.{decimals}f}"
    return text if float(text) or not stderr else f"{stderr:.1g}"


def with_error(value: float, stderr: float | None, decimals: int | None = None) -> str:
    """Format "0.710 ± 0.016", or the value alone; `decimals` are its column's, by default its own."""
    if decimals is None:
        error = math.nan if stderr is None else stderr
        decimals = decimals_of(np.array([value]), np.array([error]))
    known = None if stderr is None or math.isnan(stderr) else stderr
    text = value_text(value, decimals, known)
    return text if known is None else f"{text} ± {error_at(known, decimals)}"


def fixed_texts(numbers: Floats, decimals: NDArray[np.int8], first: int, other: Callable[[int], str]) -> list[str]:
    """Format many numbers with their decimals, five times as fast as one by one.

    `other` formats the one at a place that is negative, huge, or less than 10 ** (`first` - its decimals).
    """
    texts = np.empty(len(numbers), object)
    plain = (numbers >= 10.0 ** (first - decimals.astype(np.float64))) & (numbers < _LARGEST)
    for count in np.unique(decimals).tolist():
        chosen = plain & (decimals == count)
        texts[chosen] = list(map(f"%.{count}f".__mod__, numbers[chosen].tolist()))
    for place in np.flatnonzero(~plain).tolist():
        texts[place] = other(place)
    return list(texts)


def _decimals(magnitude: float, digits: int) -> int:
    return min(max(digits - 1 - math.floor(math.log10(magnitude)), 0), _MOST_DECIMALS)
