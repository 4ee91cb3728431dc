"""Question whether to compute what a job needs first."""

from PySide6.QtWidgets import QMessageBox, QWidget

from wina_app.style.translation import tr


def ask_compute(parent: QWidget, products: str) -> bool:
    """Ask whether to compute products, a line each, before a job that needs them."""
    text = tr("This first needs computations that take a minute or more:")
    box = QMessageBox(QMessageBox.Icon.Question, tr("Compute it now?"), text, parent=parent)
    box.setInformativeText(
        tr("{products}\n\nTheir results are stored and reused. A computation can be paused.", products=products)
    )
    compute = box.addButton(tr("Compute now"), QMessageBox.ButtonRole.AcceptRole)
    cancel = box.addButton(tr("Cancel"), QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(cancel)
    box.setEscapeButton(cancel)
    box.exec()
    box.deleteLater()
    return box.clickedButton() is compute
