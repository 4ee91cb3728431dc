"""Line edit for filters that completes the names of columns."""

import re
from collections.abc import Sequence

from PySide6.QtCore import QStringListModel, Qt
from PySide6.QtWidgets import QCompleter, QLineEdit

from wina_app.style.theme import apply_stylesheet
from wina_app.style.translation import tr

_NAME = re.compile(r"(?:^|\s)-?(?P<name>[^\W\d]\w*)$")
"""A name, or its beginning, right before the cursor."""


class FilterLine(QLineEdit):
    """Filter line; its tooltip explains the filter language."""

    def __init__(self) -> None:
        super().__init__()
        self.setClearButtonEnabled(True)
        self.setPlaceholderText(tr("Filter: words, method:wina, gated>50, /regex/, -not"))
        self.setAccessibleName(tr("Filter the table"))
        self.setToolTip(
            tr(
                "Words in any column; all must be found.\n"
                "method:wina finds in one column, method=wina the whole cell.\n"
                "gated>50 value<=0.3 n!=100 compare.\n"
                '"per head" finds words together, /^demo.*ppl/ or task:/ppl/ a regular expression.\n'
                "A minus before any of them excludes what it finds."
            )
        )
        self._names = QStringListModel()
        self._completer = QCompleter(self._names, self)
        self._completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self._completer.setWidget(self)
        popup = self._completer.popup()
        assert popup is not None
        self._popup = popup
        apply_stylesheet(popup)
        self._completer.activated.connect(self._complete)
        self.textEdited.connect(self._offer)

    def offer_columns(self, keys: Sequence[str]) -> None:
        """Set the names to complete."""
        self._names.setStringList(sorted(keys))

    def _begun(self) -> str:
        found = _NAME.search(self.text()[: self.cursorPosition()])
        return found["name"] if found else ""

    def _offer(self) -> None:
        begun = self._begun()
        self._completer.setCompletionPrefix(begun)
        if begun and self._completer.completionCount() and self.hasFocus():
            self._completer.complete()
        else:
            self._popup.hide()

    def _complete(self, name: str) -> None:
        end = self.cursorPosition()
        start = end - len(self._begun())
        self.setText(f"{self.text()[:start]}{name}:{self.text()[end:]}")
        self.setCursorPosition(start + len(name) + 1)
