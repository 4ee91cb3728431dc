"""The Log dock: lines of the window, its engines and jobs, by level and job, with search and copy."""

import logging
import time
from collections import deque
from typing import Any, NamedTuple

from PySide6.QtCore import QObject, QSize, QTimer, Signal
from PySide6.QtGui import QColor, QGuiApplication, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QComboBox, QLineEdit, QPlainTextEdit, QWidget

from wina_app.jobs.job_list import JobList
from wina_app.style.theme import GRID, HALF, monospace, notifier, tokens
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import ElidedLabel, push_button, wrap_words
from wina_app.widgets.fields import choices

LIMIT = 10_000
"""Lines kept; the log files keep more."""

SHOWN = 2_000
"""Lines shown at once: the latest of those that pass."""
_PIECE = 100
"""Lines written at once: writing all of them would block the window too long."""
_LEVELS = {
    "Debug": logging.DEBUG,
    "Info": logging.INFO,
    "Warning": logging.WARNING,
    "Error": logging.ERROR,
}
_ALL_JOBS = "Everything"


class LogLine(NamedTuple):
    """One record; its text may have several lines itself."""

    created: float
    """Seconds since the epoch."""
    level: int
    """As in the logging module."""
    source: str
    text: str
    job: str = ""
    """The job's id; empty for none."""

    def passes(self, level: int, text: str) -> bool:
        """Return whether it has at least this level and contains this lower-case text."""
        return self.level >= level and text in f"{self.source} {self.text}".lower()


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
        return QSize(0, super().minimumSizeHint().height())


class LogHandler(logging.Handler):
    """Handler that passes log records of any thread to the main one; a record's `job` is a job's id."""

    class _Bridge(QObject):
        record = Signal(float, int, str, str, str)

    def __init__(self) -> None:
        super().__init__()
        self.bridge = self._Bridge()

    def emit(self, record: logging.LogRecord) -> None:
        source, job = record.name.rpartition(".")[2], getattr(record, "job", "")
        self.bridge.record.emit(record.created, record.levelno, source, self.format(record), job)


class LogView(QWidget):
    """View of the log: lines of time, level, source and text."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogLine] = deque(maxlen=LIMIT)
        self._waiting: deque[LogLine] = deque()
        self.text = QPlainTextEdit()
        wrap_words(self.text)
        self.text.setProperty("role", "plain")
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Log")
        self.text.setMaximumBlockCount(SHOWN)
        self.last = LastLine("muted")
        self.job = choices([(_ALL_JOBS, "", "")], "Job whose log is shown")
        self.job.setMinimumContentsLength(12)
        self.job.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.job.setToolTip("All lines, or those of one job and of the engine while it ran")
        self.job.currentIndexChanged.connect(self._rebuild)
        self.level = choices(name="Lowest level shown")
        self.level.addItems(list(_LEVELS))
        self.level.setCurrentText("Info")
        self.level.currentTextChanged.connect(self._rebuild)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Show lines with…")
        self.search.setClearButtonEnabled(True)
        self.search.setAccessibleName("Search the log")
        self.search.setToolTip(self.search.placeholderText())
        self.search.textChanged.connect(self._rebuild)
        copy = push_button(
            "Copy",
            self._copy,
            name="Copy the lines shown",
            tip="Copy the selected lines, or all that are shown",
            role="link",
        )
        clear = push_button("Clear", self._clear, name="Clear the log", role="link")
        margins = (GRID * 2, HALF, GRID * 2, HALF)
        row = hbox(None, (self.job, 1), self.level, (self.search, 2), copy, clear, margins=margins)
        vbox(self, row, (self.text, 1), spacing=0)
        self._writer = QTimer(self)
        self._writer.timeout.connect(self._write)
        notifier().changed.connect(self._rebuild)
        self._rebuild()

    def follow(self, jobs: JobList) -> None:
        """Offer the log of each job."""
        self._jobs = jobs
        jobs.added.connect(self._offer)
        jobs.removed.connect(self._forget)

    def _offer(self, job_id: str) -> None:
        self.job.addItem(self._jobs[job_id].title, job_id)

    def show_job(self, job_id: str) -> None:
        self.search.clear()
        self.level.setCurrentText("Debug")
        self.job.setCurrentIndex(max(0, self.job.findData(job_id)))

    def _forget(self, job_id: str) -> None:
        if (index := self.job.findData(job_id)) > 0:
            if index == self.job.currentIndex():
                self.job.setCurrentIndex(0)
            self.job.removeItem(index)

    # ---- lines ---------------------------------------------------------------------------------------------------

    def add(self, created: float, level: int, source: str, text: str, job: str = "") -> None:
        """Add a record; its text may have several lines."""
        line = LogLine(created, level, source, text, job)
        self._lines.append(line)
        self.last.show_line(line)
        if self._passes(line):
            self._waiting.append(line)
            if not self._writer.isActive():
                self._write()

    def _passes(self, line: LogLine) -> bool:
        return self._job in ("", line.job) and line.passes(*self._filter)

    @property
    def _job(self) -> str:
        return str(self.job.currentData() or "")

    @property
    def _filter(self) -> tuple[int, str]:
        return _LEVELS[self.level.currentText()], self.search.text().lower()

    def _rebuild(self, *_: Any) -> None:
        self.text.setFont(monospace())
        self.text.clear()
        self._waiting = deque(filter(self._passes, self._lines), maxlen=SHOWN)
        self._write()

    def _write(self) -> None:
        """Write some of the waiting lines, and the rest later; follow the end unless the user scrolled up."""
        bar = self.text.verticalScrollBar()
        follows = bar.value() >= bar.maximum()
        cursor = QTextCursor(self.text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        for _ in range(min(_PIECE, len(self._waiting))):
            _append(cursor, self._waiting.popleft())
        cursor.endEditBlock()
        if follows:
            bar.setValue(bar.maximum())
        if self._waiting:
            self._writer.start(0)
        else:
            self._writer.stop()

    def _copy(self) -> None:
        cursor = self.text.textCursor()
        chosen = cursor.selection().toPlainText() if cursor.hasSelection() else self.text.toPlainText()
        QGuiApplication.clipboard().setText(chosen)

    def _clear(self) -> None:
        self._lines.clear()
        self._rebuild()

    def sizeHint(self) -> QSize:
        return QSize(GRID * 60, GRID * 18)


def _append(cursor: QTextCursor, line: LogLine) -> None:
    t = tokens()
    # Levels below debug count as debug.
    word = next(name for name, number in reversed(_LEVELS.items()) if line.level >= number or number == logging.DEBUG)
    grave = {logging.ERROR: t.failed, logging.WARNING: t.warning, logging.INFO: t.text, logging.DEBUG: t.muted}
    if not cursor.document().isEmpty():
        cursor.insertBlock()
    cursor.insertText(time.strftime("%H:%M:%S  ", time.localtime(line.created)), _ink(t.muted))
    cursor.insertText(f"{word:<8} ", _ink(grave[_LEVELS[word]]))
    cursor.insertText(f"{line.source}: ", _ink(t.muted))
    cursor.insertText(line.text, _ink(t.text))


def _ink(colour: str) -> QTextCharFormat:
    ink = QTextCharFormat()
    ink.setForeground(QColor(colour))
    return ink
