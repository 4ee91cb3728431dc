"""Texts that others wrote, for tool tips: Qt takes what looks like HTML for HTML, and would load its pictures."""

from PySide6.QtGui import Qt


def plain_tip(text: str) -> str:
    """The text as a tool tip that shows it to the letter."""
    return Qt.convertFromPlainText(text) if Qt.mightBeRichText(text) else text
