"""An axis of counts, such as decoder layers."""

import pyqtgraph as pg


class WholeNumberAxis(pg.AxisItem):
    """An axis with ticks at whole numbers only, without SI prefixes."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation=orientation)
        self.enableAutoSIPrefix(False)

    def tickSpacing(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, float]]:
        """Return (spacing, offset) of major and minor ticks."""
        return [level for level in super().tickSpacing(minVal, maxVal, size) if level[0] >= 1] or [(1.0, 0.0)]
