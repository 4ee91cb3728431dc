"""The latest line of the log."""

import logging
import time

from PySide6.QtCore import QSize

from wina_app.docks.log_book import LogLine
from wina_app.widgets.controls import ElidedLabel


class LastLine(ElidedLabel):
    """The Log dock in one line: the latest record that is at least information, errors in their colour."""

    def show_line(self, line: LogLine) -> None:
        """Show a line, unless it is for debugging."""
        if line.level < logging.INFO:
            return
        clock = time.strftime("%H:%M:%S", time.localtime(line.created))
        first = line.text.strip().partition("\n")[0]
        self.setText(f"{clock}  {line.source}: {first}")
        role = "failed" if line.level >= logging.ERROR else "muted"
        if self.property("role") != role:
            self.setProperty("role", role)
            self.style().unpolish(self)
            self.style().polish(self)

    def minimumSizeHint(self) -> QSize:
        """Return the height of a line; any width will do."""
        return QSize(0, super().minimumSizeHint().height())
