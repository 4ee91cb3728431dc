"""How numbers and times read in tables."""

import time

UNKNOWN = "\N{EN DASH}"
"""Shown where there is no number."""


def number(value: float | None) -> str:
    """Six significant digits, with a real minus sign."""
    return UNKNOWN if value is None else with_minus(f"{value:.6g}")


def error_text(stderr: float | None) -> str:
    """A standard error with two significant digits."""
    return UNKNOWN if stderr is None else f"{stderr:.2g}"


def count_text(n: int | None) -> str:
    """Thousands apart: 16384 -> "16,384"."""
    return UNKNOWN if n is None else f"{n:,}"


def percentage_text(percentage: float | None) -> str:
    """One digit after the point."""
    return UNKNOWN if percentage is None else with_minus(f"{percentage:.1f}")


def moment(seconds: float) -> str:
    """Local date and time, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def with_minus(text: str) -> str:
    """The text with real minus signs."""
    return text.replace("-", "\N{MINUS SIGN}")
