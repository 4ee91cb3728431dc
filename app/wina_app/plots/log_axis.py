"""An axis of powers of ten, also where it spans less than one."""

import math

import pyqtgraph as pg

_ENOUGH = 3


class LogAxis(pg.AxisItem):
    """An axis of data given as log10, with ticks at 1, 2 and 5 times powers of ten, or at nearer steps.

    With `log` off it is an axis of the data themselves.
    """

    def __init__(self, orientation: str, *, log: bool = True) -> None:
        self.log = log
        super().__init__(orientation=orientation)

    def set_log(self, log: bool) -> None:
        """Switch between powers of ten and the data themselves."""
        if log != self.log:
            self.log = log
            self.picture = None
            self.update()

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, list[float]]]:
        """Return (spacing, positions) of the ticks, which all have a text where the axis is logarithmic."""
        if not self.log:
            return list(super().tickValues(minVal, maxVal, size))
        return [(1.0, log_ticks(minVal, maxVal, most=max(2, int(size / 40))))]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        """Return the numbers themselves."""
        if not self.log:
            return list(super().tickStrings(values, scale, spacing))
        return [f"{10.0**value:.6g}" for value in values]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return log10 of round numbers from 10^low to 10^high, about `most` of them at most."""
    for factors in ((1, 2, 5), (1,)):
        found = [
            power + math.log10(factor)
            for power in range(math.floor(low), math.ceil(high) + 1)
            for factor in factors
            if low <= power + math.log10(factor) <= high
        ]
        if len(found) <= most:
            break
    found = found[:: math.ceil(len(found) / most)] if len(found) > most else found
    return found if len(found) >= _ENOUGH or high - low > 2 else _linear(low, high, most)


def _linear(low: float, high: float, most: int) -> list[float]:
    first, last = 10.0**low, 10.0**high
    raw = (last - first) / most
    if raw <= 0:
        return []
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    start = math.ceil(first / step)
    return [math.log10(number * step) for number in range(start, math.floor(last / step) + 1) if number > 0]
