"""Dialog with a run as a study of its own, and the command that computes it again."""

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QVBoxLayout, QWidget

from wina_app.style.theme import GRID, monospace
from wina_app.style.translation import tr
from wina_app.widgets.controls import text_label
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
        self.setWindowTitle(tr("How this was computed"))
        self.resize(80 * GRID, 64 * GRID)
        saved = tr("Saved as run.json, this study is computed again by <b>wina study run run.json</b>.")
        intro = text_label(saved, wrap=True, rich=True)
        self.text = QPlainTextEdit(study_of(spec).model_dump_json(indent=2, exclude_defaults=True))
        self.text.setReadOnly(True)
        self.text.setFont(monospace())
        self.text.setAccessibleName(tr("Study of this run as JSON"))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        copy = buttons.addButton(tr("Copy"), QDialogButtonBox.ButtonRole.ActionRole)
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setSpacing(GRID)
        column.addWidget(intro)
        column.addWidget(self.text, 1)
        column.addWidget(buttons)
