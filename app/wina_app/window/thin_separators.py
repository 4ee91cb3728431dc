"""The style of a main window whose docks are separated by a line."""

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QProxyStyle, QStyle, QStyleOption, QWidget


class ThinSeparators(QProxyStyle):
    """Fusion with docks that are a pixel apart."""

    def __init__(self, parent: QObject) -> None:
        super().__init__("Fusion")
        self.setParent(parent)

    def pixelMetric(
        self, metric: QStyle.PixelMetric, option: QStyleOption | None = None, widget: QWidget | None = None
    ) -> int:
        """Return one pixel for the separators of docks."""
        if metric == QStyle.PixelMetric.PM_DockWidgetSeparatorExtent:
            return 1
        return super().pixelMetric(metric, option, widget)
