"""Removal of all widgets of a layout."""

from PySide6.QtWidgets import QLayout


def clear_layout(layout: QLayout) -> None:
    """Take all widgets out of a layout and delete them."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()  # until it is deleted
            widget.deleteLater()
