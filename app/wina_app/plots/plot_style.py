"""The theme's colours and fonts for pyqtgraph. The window does not load pyqtgraph before its first plot."""

import pyqtgraph as pg
from PySide6.QtGui import QColor

from wina_app.style.theme import font, notifier, tokens


def style_plot(plot: pg.PlotItem) -> None:
    """Give a plot the current colours and fonts; call it after making the plot and on every change of theme."""
    t = tokens()
    view = plot.getViewWidget()
    if view is not None:
        view.setBackground(t.surface)
    for side in ("left", "bottom", "right", "top"):
        axis = plot.getAxis(side)
        axis.setPen(pg.mkPen(t.border))
        axis.setTextPen(pg.mkPen(t.muted))
        axis.setTickFont(font("small", tabular=True))
        axis.label.setFont(font("small"))
        axis.labelStyle["color"] = t.text
        axis.label.setDefaultTextColor(QColor(t.text))
    plot.showGrid(x=True, y=True, alpha=0.15)


def _set_defaults() -> None:
    """Set the colours of new plots."""
    pg.setConfigOptions(antialias=True, background=tokens().surface, foreground=tokens().text)


_set_defaults()
notifier().changed.connect(_set_defaults)
