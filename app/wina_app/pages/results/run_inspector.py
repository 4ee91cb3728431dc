"""Inspector of the Results page: the selected run and its annotations."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QCheckBox, QGridLayout, QLineEdit, QPlainTextEdit, QScrollArea, QWidget

from wina_app.pages.results.tags_controller import RunFacts
from wina_app.style.theme import GRID
from wina_app.widgets.boxes import STRETCH, vbox
from wina_app.widgets.controls import labelled, text_label, wrap_words


class NoteEdit(QPlainTextEdit):
    """Text field that emits its text when it loses the focus."""

    finished = Signal()

    def __init__(self) -> None:
        super().__init__()
        wrap_words(self)
        self.setTabChangesFocus(True)
        self.setFixedHeight(10 * GRID)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.finished.emit()


class ResultsInspector(QScrollArea):
    """Facts of one run; with several selected, annotations go to all of them."""

    tags_written = Signal(list, str)
    note_written = Signal(list, str)
    pin_toggled = Signal(list)

    def __init__(self) -> None:
        super().__init__()
        self._runs: list[str] = []
        self.title = text_label("", "section", wrap=True)
        self.tags = QLineEdit()
        self.tags.setPlaceholderText("best, for the report")
        self.tags.editingFinished.connect(self._write_tags)
        self.note = NoteEdit()
        self.note.setPlaceholderText("What you want to remember of this run")
        self.note.finished.connect(self._write_note)
        self.pinned = QCheckBox("Pinned to the top")
        # `toggled` would also follow `show_runs`.
        self.pinned.clicked.connect(lambda: self.pin_toggled.emit(self._runs))
        self._cells = QGridLayout()
        self._cells.setHorizontalSpacing(2 * GRID)
        self._cells.setVerticalSpacing(GRID)
        self._cells.setColumnStretch(1, 1)
        content = QWidget()
        content.setProperty("role", "surface")
        content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        tags, note = labelled("Tags, with commas between", self.tags), labelled("Note", self.note)
        margins = (2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        vbox(content, self.title, tags, note, self.pinned, self._cells, STRETCH, margins=margins)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)
        self.show_runs([], None)

    def show_runs(self, runs: Sequence[str], facts: RunFacts | None) -> None:
        """Show what is known of the first of the selected runs; None when none is selected."""
        changed = list(runs) != self._runs
        if changed:  # unsaved text belongs to the runs that were selected so far
            self._write_tags()
            self._write_note()
        self._runs = list(runs)
        for control in (self.tags, self.note, self.pinned):
            control.setEnabled(facts is not None)
            control.setToolTip("" if facts else "Select a row of the table")
        if len(runs) > 1:
            self.title.setText(f"{len(runs):,} runs")
        else:
            self.title.setText(f"Run {facts.run}" if facts else "No run is selected")
        # Results that land must not replace what is being typed.
        if changed or facts is None or not (self.tags.hasFocus() or self.tags.isModified()):
            self.tags.setText(", ".join(facts.annotations.tags) if facts else "")
            self.tags.setModified(False)
        if changed or facts is None or not self.note.hasFocus():
            self.note.setPlainText(facts.annotations.note if facts else "")
        self.pinned.setChecked(bool(facts and facts.annotations.pinned))
        self._show_cells(facts.cells if facts and len(runs) == 1 else ())

    def _show_cells(self, cells: Sequence[tuple[str, str]]) -> None:
        while (item := self._cells.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                # Until the event loop deletes it, it would be painted over the new cells.
                widget.hide()
                widget.deleteLater()
        for row, (title, text) in enumerate(cells):
            label = text_label(text, wrap=True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            label.setAccessibleName(f"{title}: {text}")
            self._cells.addWidget(text_label(title, "muted"), row, 0, Qt.AlignmentFlag.AlignTop)
            self._cells.addWidget(label, row, 1)

    def _write_tags(self) -> None:
        if self.tags.isModified():
            self.tags.setModified(False)
            self.tags_written.emit(self._runs, self.tags.text())

    def _write_note(self) -> None:
        if self.note.document().isModified():
            self.note.document().setModified(False)
            self.note_written.emit(self._runs, self.note.toPlainText())
