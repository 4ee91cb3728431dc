"""Dialog that shows the table as LaTeX or Markdown and saves or copies it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QCheckBox, QDialog, QDialogButtonBox, QLineEdit, QPlainTextEdit, QWidget

from wina_app.pages.results.clipboard import TableSnapshot
from wina_app.style.theme import GRID, monospace, scaled
from wina_app.style.translation import tr
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import labelled, push_button, text_label
from wina_app.widgets.file_dialogs import save_as
from wina_app.widgets.segmented_control import SegmentedControl
from wina_core.analysis.results.publication import Style

_MOST = 200
"""Lines of the table in the preview; a file has all."""
_FORMATS = {".tex": "LaTeX (*.tex)", ".md": "Markdown (*.md)"}


class PaperDialog(QDialog):
    """A dialog beside the window, not modal, on the table as it was when the dialog was opened."""

    save_requested = Signal(object, object, object)
    """Path and style of the file, and the table."""

    def __init__(self, shown: TableSnapshot, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Table for a paper"))
        self.resize(scaled(104 * GRID), scaled(72 * GRID))
        self._shown, usual = shown, shown.usual_style
        self.format = SegmentedControl(
            tr("Format"),
            (
                (".tex", "LaTeX", tr("Needs only the package booktabs")),
                (".md", "Markdown", tr("For READMEs and issues")),
            ),
        )
        self.caption, self.label = QLineEdit(usual.caption), QLineEdit(usual.label)
        self.bold = QCheckBox(tr("Best values bold"))
        tip = tr("The best value of each metric for each model and target sparsity, and all that read the same")
        self.bold.setToolTip(tip)
        self.bold.setChecked(True)
        self.compact = QCheckBox(tr("Compact"))
        self.compact.setToolTip(tr("Without notes, dates and columns that are the same in all rows"))
        self.compact.setChecked(True)
        self.preview = QPlainTextEdit()
        self.preview.setReadOnly(True)
        self.preview.setFont(monospace())
        self.preview.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.preview.setAccessibleName(tr("Preview"))
        self.remark = text_label("", "muted", wrap=True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.copy = push_button(tr("Copy"), self._copy, name=tr("Copy the table"))
        self.save = push_button(tr("Save…"), self._save, name=tr("Choose a file and save the table"))
        buttons.addButton(self.copy, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.addButton(self.save, QDialogButtonBox.ButtonRole.ActionRole)
        self.save.setDefault(True)
        buttons.rejected.connect(self.close)
        vbox(
            self,
            hbox(None, self.format, self.bold, self.compact, STRETCH),
            labelled(tr("Caption"), self.caption),
            labelled(tr("Label"), self.label),
            (self.preview, 1),
            self.remark,
            buttons,
            margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID),
        )
        self.format.chosen.connect(self._follow)
        for box in (self.bold, self.compact):
            box.toggled.connect(self._follow)
        for edit in (self.caption, self.label):
            edit.textChanged.connect(self._follow)
        self._follow()

    @property
    def table(self) -> TableSnapshot:
        """Return the table with the chosen columns."""
        return self._shown.compact if self.compact.isChecked() else self._shown

    @property
    def style_chosen(self) -> Style:
        """Return the choices; Markdown has neither caption nor label."""
        if self.format.value != ".tex":
            return Style(bold=self.bold.isChecked())
        return Style(self.caption.text().strip(), self.label.text().strip(), self.bold.isChecked())

    def _follow(self) -> None:
        for edit in (self.caption, self.label):
            edit.setEnabled(self.format.value == ".tex")
        count = len(self._shown.arrangement.lines)
        self.preview.setPlainText(self._text(min(count, _MOST)))
        shortened = tr(
            "The preview has the first {most} lines, with the best of these bold; a file has all.", most=_MOST
        )
        self.remark.setText(shortened if count > _MOST else "")
        self.remark.setVisible(count > _MOST)

    def _text(self, lines: int) -> str:
        return self.table.copy(range(lines), self.format.value, self.style_chosen)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._text(len(self._shown.arrangement.lines)))

    def _save(self) -> None:
        suffix = self.format.value
        path = save_as(self, tr("Save the table"), f"results{suffix}", _FORMATS[suffix])
        if path is not None:
            self.save_requested.emit(path, self.style_chosen, self.table)
