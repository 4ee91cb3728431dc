"""Tooltips of texts from outside: Qt would render anything like HTML, and load its pictures."""

from PySide6.QtGui import Qt


def plain_tip(text: str) -> str:
    return Qt.convertFromPlainText(text) if Qt.mightBeRichText(text) else text
