"""Texts of numbers and times in tables."""

import math
import time

UNKNOWN = "\N{EN DASH}"
"""Shown where there is no number."""


def number(value: float | None) -> str:
    """Format six significant digits, with a real minus sign."""
    return UNKNOWN if value is None else with_minus(f"{value:.6g}")


def error_text(stderr: float | None) -> str:
    """Format a standard error with two significant digits."""
    return UNKNOWN if stderr is None else f"{stderr:.2g}"


def p_text(p: float, smallest: float | None = None) -> str:
    """Format a p with three decimals, or as an upper bound; with the smallest that was possible where that is not tiny.

    A test of few documents cannot reject, whatever they say: "0.250 (min 0.250)".
    """
    if math.isnan(p):
        return UNKNOWN
    text = "< 0.001" if p < 0.001 else f"{p:.3f}"
    return text if smallest is None or smallest < 0.001 else f"{text} (min {smallest:.3f})"


def count_text(n: int | None) -> str:
    """Format a count: 16384 -> "16,384"."""
    return UNKNOWN if n is None else f"{n:,}"


def percentage_text(percentage: float | None) -> str:
    return UNKNOWN if percentage is None else with_minus(f"{percentage:.1f}")


def percent_apart(ratio: float) -> str:
    """Format the disagreement of two speeds with this ratio: 1.31 -> "31 %"."""
    return f"{100 * (ratio - 1):.0f} %"


def moment(seconds: float) -> str:
    """Format seconds since the epoch as local date and time; a number that is no time is unknown."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def with_minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")
