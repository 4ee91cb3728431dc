"""Command of a page that asks for the folder of a sparse model, with a button."""

from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QAbstractButton, QFileDialog

from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page, with_shortcut
from wina_app.widgets.plain_text import plain_tip

SHORT = tr("Export model…")
"""Text of the button in a page's head, which has little room."""
_TEXT = tr("Export sparse model…")
_TIP = tr("Save as a Hugging Face folder that transformers loads gated, with a model card of its stored results")
_KEYS = "Ctrl+Shift+F"


class SparseExportCommand(QObject):
    """Command in the page's menu and in the palette, and its button."""

    folder_chosen = Signal(Path)

    def __init__(self, page: Page, button: QAbstractButton, text: str = _TEXT) -> None:
        """Make `button` the command's, with this text."""
        super().__init__(page)
        self._page, self.button = page, button
        self.action = page.add_command(_TEXT, self._choose, _KEYS)
        button.setText(text)
        button.setAccessibleName(_TEXT.rstrip("…"))
        button.clicked.connect(self.action.trigger)
        self.show_reason("")

    def show_reason(self, reason: str) -> None:
        """Enable the export, or disable it for a reason."""
        for control in (self.button, self.action):
            control.setEnabled(not reason)
            control.setToolTip(plain_tip(reason) if reason else with_shortcut(_TIP, _KEYS))

    def _choose(self) -> None:
        title = tr("Save the sparse model in an empty folder")
        folder = QFileDialog.getExistingDirectory(self._page, title)
        if folder:
            self.folder_chosen.emit(Path(folder))
