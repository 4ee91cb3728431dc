"""A small question mark beside a term: its definition in the tooltip, more in the guide."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QToolButton

from wina_app.services import guide
from wina_app.widgets.plain_text import plain_tip


class HelpButton(QToolButton):
    """A button that requests the place in the guide where a term is explained."""

    requested = Signal(str)

    def __init__(self, name: str) -> None:
        """Look `name` up in the glossary, case aside; raise KeyError for an unknown term."""
        super().__init__()
        term = guide.terms()[name.lower()]
        self.setText("?")
        self.setProperty("role", "help")
        self.setAccessibleName(f"What is: {term.name}")
        self.setAccessibleDescription(term.text)
        self.setToolTip(plain_tip(term.text))
        self.setCursor(Qt.CursorShape.WhatsThisCursor)
        self.clicked.connect(lambda: self.requested.emit(term.topic))
