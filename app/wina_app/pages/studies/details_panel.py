"""Details of a study: title, description, facts and runs."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from wina_app.pages.studies.study_state import StudyState, facts
from wina_app.shared.run_grid_view import RunGrid, RunLegend
from wina_app.style.theme import GRID, HALF
from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.clear_layout import clear_layout
from wina_app.widgets.controls import ElidedLabel, beside, rule, text_label
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip
from wina_core.studies.gallery import GalleryEntry

_LEAST = GRID * 46
"""Least height of a grid that needs as much: the details scroll where there is less room."""
_NO_RUNS = tr("This study times products only; see the Latency page.")


class StudyDetail(QWidget):
    """Read-only details of a study."""

    def __init__(self) -> None:
        super().__init__()
        self.title = text_label("", "title", wrap=True)
        self.description = text_label("", wrap=True)
        self.file = ElidedLabel()
        self.file.setParent(self)  # without one, showing it would open a window
        self.error = text_label("", "failed", wrap=True)
        self._facts = QGridLayout()
        self._facts.setHorizontalSpacing(2 * GRID)
        self._facts.setVerticalSpacing(HALF)
        self._facts.setColumnStretch(1, 1)
        self._runs = text_label(tr("Runs: method × sparsity"), "section")
        self.trouble = text_label("", "failed", wrap=True)
        self.remark = text_label("", "muted", wrap=True)
        self.grid = RunGrid()
        self.legend = RunLegend()
        for label in (self.title, self.description, self.error, self.trouble, self.remark):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._column = column = vbox(
            self,
            self.title,
            self.description,
            self.error,
            self._facts,
            rule(),
            margins=(2 * GRID, GRID, 2 * GRID, GRID),
        )
        self._term = HelpButton("Configuration")
        column.addLayout(beside(self._runs, self._term))
        column.addWidget(self.trouble)
        column.addWidget(self.remark)
        column.addWidget(self.grid, 1)
        column.addWidget(self.legend)
        self._rest = column.count()
        column.addStretch(0)

    def show_study(self, entry: GalleryEntry | None) -> None:
        """Show a study, or the error of its file with its line."""
        study = entry.study if entry else None
        self.title.setText(entry.title if entry else "")
        self.description.setText(study.description if study else "")
        self.description.setVisible(bool(study and study.description))
        shipped = entry is not None and entry.kind != "own"
        self.file.setText("" if entry is None else entry.file.name if shipped else str(entry.file))
        self.file.setToolTip(plain_tip(str(entry.file) if entry else ""))
        self.error.setText(entry.error if entry else "")
        self.error.setVisible(bool(entry and entry.error))
        self._facts.removeWidget(self.file)
        self.file.setVisible(entry is not None)
        clear_layout(self._facts)
        rows: list[tuple[str, QWidget]] = (
            [(caption, _selectable(text)) for caption, text in facts(study)] if study else []
        )
        for row, (caption, widget) in enumerate([*rows, (tr("File"), self.file)] if entry else []):
            self._facts.addWidget(text_label(caption, "muted"), row, 0, Qt.AlignmentFlag.AlignTop)
            self._facts.addWidget(widget, row, 1)
        self.show_state(None)

    def show_state(self, state: StudyState | None) -> None:
        """Show the runs and their stored parts; None while they are read."""
        grid = state.grid if state else None
        self.grid.show_grid(grid)
        self.legend.show_grid(grid)
        self.grid.setVisible(grid is not None)
        needed = self.grid.verticalHeader().length() + self.grid.horizontalHeader().height() + 2 * GRID
        self.grid.setMinimumHeight(min(needed, _LEAST))
        for widget in (self._runs, self._term):
            widget.setVisible(grid is not None)
        texts = {self.trouble: state.trouble if state else "", self.remark: _remark(state) if state else ""}
        for label, text in texts.items():
            label.setText(text)
            label.setVisible(bool(text))
        self._column.setStretch(self._rest, 0 if grid else 1)


def _remark(state: StudyState) -> str:
    if state.request and not state.trouble:
        return tr("To run it here, choose on the right {inputs}.", inputs=state.request)
    return "" if state.grid or state.trouble else _NO_RUNS


def _selectable(text: str) -> QLabel:
    label = text_label(text, wrap=True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
