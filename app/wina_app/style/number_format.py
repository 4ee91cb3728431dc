"""Numbers with units, and lists of names, for reading."""

from collections.abc import Sequence

PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(value: float) -> str:
    """Format with three significant digits and a prefix: 6,912,000 -> "6.91 M"."""
    for scale, prefix in PREFIXES:
        if value >= scale:
            return f"{three_digits(value / scale)} {prefix}"
    return f"{value:,.0f}"


def plural(number: int, many: str, one: str) -> str:
    """Count things: (1_500, "runs", "run") -> "1,500 runs", (1, "runs", "run") -> "1 run"."""
    return f"{number:,} {one if number == 1 else many}"


def listed(names: Sequence[str]) -> str:
    """Join names: "one", "one and two", "one, two and three"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def size(bytes_: float) -> str:
    """Format bytes in binary units: 14,155,776 -> "13.5 MiB"."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if bytes_ >= 1024**power:
            return f"{three_digits(bytes_ / 1024**power)} {unit}"
    return f"{bytes_:.0f} B"


def fraction(percentage: float) -> float:
    """Convert a percentage: 32.3 -> 0.323, rounded to six digits so that equal inputs make equal specs."""
    return round(percentage / 100, 6)


def percent(fraction: float) -> str:
    """Format a fraction with one decimal: 0.7134 -> "71.3 %"."""
    return f"{100 * fraction:.1f} %".replace("-", "\N{MINUS SIGN}")


def scientific(value: float) -> str:
    """Format with two significant digits: 1.2e-06 -> "1.2e-06"."""
    return "0" if value == 0 else f"{value:.2g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.1e}"


def duration(seconds: float) -> str:
    """Format a duration: "42 s", "3:05 min", "2:07 h"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"


def three_digits(value: float) -> str:
    """Format without a prefix: 6.912 -> "6.91"."""
    # Limits from which a value is rounded up to a number with one more digit.
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
