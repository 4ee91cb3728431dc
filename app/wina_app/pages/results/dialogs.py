"""Dialogs of the Results page: how a run was computed, and the table for a paper."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QCheckBox, QDialog, QDialogButtonBox, QLineEdit, QPlainTextEdit, QVBoxLayout, QWidget

from wina_app.pages.results.table import TableSnapshot
from wina_app.style.theme import GRID, monospace, scaled
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import labelled, push_button, text_label
from wina_app.widgets.file_dialogs import save_as
from wina_app.widgets.segmented_control import SegmentedControl
from wina_core.analysis.results.publication import Style
from wina_core.specs import AllocatedSparsity, AllocatorSpec, Configuration, RunSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.studies import StudySpec


def study_of(spec: RunSpec) -> StudySpec:
    """Return the study that expands to exactly this run."""
    table = isinstance(spec.plan, SparsityPlan)
    study = StudySpec(
        name=f"run {spec.content_hash()}",
        models=(spec.model,),
        configurations=(Configuration(rotation=spec.rotation, method=spec.method),),
        sparsities=() if table else (spec.plan.sparsity,),
        allocators=(spec.plan.allocator if isinstance(spec.plan, AllocatedSparsity) else AllocatorSpec(),),
        plans=(spec.plan,) if table else (),
        evaluation=spec.evaluation,
    )
    return study if spec.calibration is None else study.model_copy(update={"calibration": spec.calibration})


class ResultsSpec(QDialog):
    """Selectable text with a button that copies all of it."""

    def __init__(self, spec: RunSpec, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("How this was computed")
        self.resize(80 * GRID, 64 * GRID)
        saved = "Saved as run.json, this study is computed again by <b>wina study run run.json</b>."
        intro = text_label(saved, wrap=True, rich=True)
        self.text = QPlainTextEdit(study_of(spec).model_dump_json(indent=2, exclude_defaults=True))
        self.text.setReadOnly(True)
        self.text.setFont(monospace())
        self.text.setAccessibleName("Study of this run as JSON")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        copy = buttons.addButton("Copy", QDialogButtonBox.ButtonRole.ActionRole)
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setSpacing(GRID)
        column.addWidget(intro)
        column.addWidget(self.text, 1)
        column.addWidget(buttons)


_MOST = 200
"""Rows of the table in the preview; a file has all."""
_FORMATS = {".tex": "LaTeX (*.tex)", ".md": "Markdown (*.md)"}


class PaperDialog(QDialog):
    """A dialog beside the window, not modal, on the table as it was when the dialog was opened."""

    save_requested = Signal(object, object, object)
    """Path and style of the file, and the table."""

    def __init__(self, snapshot: TableSnapshot, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Table for a paper")
        self.resize(scaled(104 * GRID), scaled(72 * GRID))
        self._snapshot, usual = snapshot, snapshot.usual_style
        self.format = SegmentedControl(
            "Format",
            (
                (".tex", "LaTeX", "Needs only the package booktabs"),
                (".md", "Markdown", "For READMEs and issues"),
            ),
        )
        self.caption, self.label = QLineEdit(usual.caption), QLineEdit(usual.label)
        self.bold = QCheckBox("Best values bold")
        tip = "The best value of each metric for each model and target sparsity, and all that read the same"
        self.bold.setToolTip(tip)
        self.bold.setChecked(True)
        self.compact = QCheckBox("Compact")
        self.compact.setToolTip("Without notes, dates and columns that are the same in all rows")
        self.compact.setChecked(True)
        self.preview = QPlainTextEdit()
        self.preview.setReadOnly(True)
        self.preview.setFont(monospace())
        self.preview.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.preview.setAccessibleName("Preview")
        self.remark = text_label("", "muted", wrap=True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.copy = push_button("Copy", self._copy, name="Copy the table")
        self.save = push_button("Save…", self._save, name="Choose a file and save the table")
        buttons.addButton(self.copy, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.addButton(self.save, QDialogButtonBox.ButtonRole.ActionRole)
        self.save.setDefault(True)
        buttons.rejected.connect(self.close)
        vbox(
            self,
            hbox(None, self.format, self.bold, self.compact, STRETCH),
            labelled("Caption", self.caption),
            labelled("Label", self.label),
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
        return self._snapshot.compact if self.compact.isChecked() else self._snapshot

    @property
    def style_chosen(self) -> Style:
        """Return the choices; Markdown has neither caption nor label."""
        if self.format.value != ".tex":
            return Style(bold=self.bold.isChecked())
        return Style(self.caption.text().strip(), self.label.text().strip(), self.bold.isChecked())

    def _follow(self) -> None:
        for edit in (self.caption, self.label):
            edit.setEnabled(self.format.value == ".tex")
        count = len(self._snapshot.rows)
        self.preview.setPlainText(self._text(self.table.lines(range(min(count, _MOST)))))
        shortened = f"The preview has the first {_MOST} rows, with the best of these bold; a file has all."
        self.remark.setText(shortened if count > _MOST else "")
        self.remark.setVisible(count > _MOST)

    def _text(self, table: TableSnapshot) -> str:
        return table.copy(self.format.value, self.style_chosen)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._text(self.table))

    def _save(self) -> None:
        suffix = self.format.value
        path = save_as(self, "Save the table", f"results{suffix}", _FORMATS[suffix])
        if path is not None:
            self.save_requested.emit(path, self.style_chosen, self.table)
