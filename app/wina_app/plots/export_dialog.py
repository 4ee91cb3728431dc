"""Asks how a plot is to be saved, beside a picture of what that will be."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QSize, Qt, QThreadPool, QTimer, Signal
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLabel,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from wina_app.plots.export import draw_figure, preview
from wina_app.plots.export_settings import FORMATS, LastChoice, PlotFile
from wina_app.plots.figure import Figure
from wina_app.style.theme import GRID, scaled
from wina_app.style.translation import tr
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import explain_disabled, labelled, pad_text, text_label
from wina_app.widgets.file_dialogs import save_as
from wina_core.errors import WinaError

_PREVIEW = QSize(52 * GRID, 40 * GRID)
_REST_MS = 120
"""The picture is drawn once the hand rests this long."""


class PlotExportDialog(QDialog):
    """Not modal: the window goes on working beside it. Saves the figure as it was when the dialog was opened."""

    saved = Signal(str)
    """The path that was written."""

    def __init__(self, figure: Figure, name: str, last: LastChoice, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Export plot"))
        self._figure, self._name, self._last = figure, name, last
        self._make_controls(last.choice)
        self.picture = QLabel()
        self.picture.setAccessibleName(tr("Preview"))
        self.picture.setFixedSize(_PREVIEW)
        self.picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.pixels = text_label("", "muted", wrap=True)
        self.trouble = text_label("", "failed", wrap=True)
        self.trouble.hide()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.save = buttons.addButton(tr("Save…"), QDialogButtonBox.ButtonRole.ActionRole)
        self.save.setAccessibleName(tr("Choose a file and save the plot"))
        self.save.setDefault(True)
        self.save.clicked.connect(self._ask)
        buttons.rejected.connect(self.close)
        self.format.setMinimumWidth(26 * GRID)
        form = QVBoxLayout()
        form.setSpacing(GRID)
        self.format.setMinimumWidth(scaled(26 * GRID))
        form.addLayout(labelled(tr("Format"), self.format))
        form.addLayout(labelled(tr("Width (mm)"), self.width_box))
        form.addLayout(labelled(tr("Height (mm)"), self.height_box))
        form.addLayout(labelled(tr("Resolution (dots per inch)"), self.dpi))
        form.addWidget(self.light)
        form.addWidget(self.pixels)
        form.addStretch(1)
        row = QHBoxLayout()
        row.setSpacing(2 * GRID)
        row.addLayout(form)
        row.addWidget(self.picture)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addLayout(row)
        column.addWidget(self.trouble)
        column.addWidget(buttons)
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(_REST_MS)
        self._rest.timeout.connect(self._draw)
        self._follow()  # which has the picture drawn once the dialog is on the screen

    def _make_controls(self, choice: PlotFile) -> None:
        self.format = ComboBox(tr("Format"))
        self.format.fill([(name, key) for key, (name, _) in FORMATS.items()], choice.format)
        for at, (_, explanation) in enumerate(FORMATS.values()):
            self.format.setItemData(at, explanation, Qt.ItemDataRole.ToolTipRole)
        self.width_box, self.height_box, self.dpi = QDoubleSpinBox(), QDoubleSpinBox(), QSpinBox()
        for box, value in ((self.width_box, choice.width), (self.height_box, choice.height)):
            box.setRange(20.0, 1000.0)
            box.setDecimals(1)
            box.setSingleStep(10.0)
            box.setValue(value)
        self.dpi.setRange(36, 1200)
        self.dpi.setSingleStep(50)
        self.dpi.setValue(choice.dpi)
        for box in (self.width_box, self.height_box, self.dpi):
            pad_text(box)
            box.valueChanged.connect(self._follow)
        self.light = QCheckBox(tr("Light, for print"))
        self.light.setToolTip(tr("Dark words on white, however the window looks"))
        self.light.setChecked(choice.light)
        self.light.toggled.connect(self._follow)
        self.format.currentIndexChanged.connect(self._follow)

    def choice(self) -> PlotFile:
        """What is chosen now."""
        return PlotFile(
            format=self.format.currentData(),
            width=self.width_box.value(),
            height=self.height_box.value(),
            dpi=self.dpi.value(),
            light=self.light.isChecked(),
        )

    def _follow(self) -> None:
        choice = self.choice()
        image = choice.format == "png"
        explain_disabled(self.dpi, enabled=image, reason=tr("Vectors have no pixels: they are sharp at any size"))
        explain_disabled(
            self.light,
            enabled=choice.format != "py",
            reason=tr("The script draws on white"),
            explanation=tr("Dark words on white, however the window looks"),
        )
        width, height = choice.pixels
        said = tr("{width} x {height} pixels", width=f"{width:,}", height=f"{height:,}")
        self.pixels.setText(said if image else FORMATS[choice.format][1])
        if hasattr(self, "_rest"):
            self._rest.start()

    def _draw(self) -> None:
        ratio = self.devicePixelRatioF()
        choice = self.choice()
        choice = choice.model_copy(update={"light": True}) if choice.format == "py" else choice
        picture = QPixmap.fromImage(preview(self._figure, choice, _PREVIEW * ratio))
        picture.setDevicePixelRatio(ratio)
        self.picture.setPixmap(picture)

    def _ask(self) -> None:
        choice = self.choice()
        kind = f"{FORMATS[choice.format][0]} (*.{choice.format})"
        path = save_as(self, tr("Export plot"), f"{self._name}.{choice.format}", kind)
        if path is not None:
            self.save_to(path)

    def save_to(self, path: Path) -> None:
        """Draw the figure, and write it on a thread of its own, since compressing it takes as long again."""
        choice = self.choice()
        light = choice.light or choice.format == "py"
        write = draw_figure(self._figure, path, choice.model_copy(update={"light": light}))
        self.save.setEnabled(False)
        self._written = path, choice
        writing = _Writing(write)
        writing.ended.connect(self._on_ended)
        QThreadPool.globalInstance().start(writing.run)

    def _on_ended(self, trouble: str) -> None:
        """What went wrong is told here, and the dialog stays."""
        path, choice = self._written
        self.save.setEnabled(True)
        self.trouble.setText(trouble)
        self.trouble.setVisible(bool(trouble))
        if not trouble:
            self._last.choice = choice
            self.saved.emit(str(path))
            self.close()


class _Writing(QObject):
    """Tells what went wrong, nothing if nothing did."""

    ended = Signal(str)

    def __init__(self, write: Callable[[], None]) -> None:
        super().__init__()
        self._write = write

    def run(self) -> None:
        """On any thread."""
        try:
            self._write()
        except WinaError as error:
            self.ended.emit(str(error))
        else:
            self.ended.emit("")
