"""A small question mark beside a term of the field: what it means in the tooltip, more of it in the guide."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QToolButton

from wina_app.services import guide
from wina_app.style.translation import tr
from wina_app.widgets.plain_text import plain_tip


class HelpButton(QToolButton):
    """`requested` carries where in the guide the term is explained; the window opens it there."""

    requested = Signal(str)

    def __init__(self, name: str) -> None:
        """`name` is a heading of the guide's glossary, case aside; one that it lacks is a KeyError."""
        super().__init__()
        term = guide.terms()[name.lower()]
        self.setText("?")
        self.setProperty("role", "help")
        self.setAccessibleName(tr("What is: {term}", term=term.name))
        self.setAccessibleDescription(term.text)
        self.setToolTip(plain_tip(term.text))
        self.setCursor(Qt.CursorShape.WhatsThisCursor)
        self.clicked.connect(lambda: self.requested.emit(term.topic))
