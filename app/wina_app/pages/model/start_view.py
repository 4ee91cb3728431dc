"""Start view of the Model page: the demo, an own model, or stored results."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QScrollArea, QWidget

from wina_app.style.icons import icon
from wina_app.style.theme import GRID, notifier
from wina_app.style.translation import tr
from wina_app.widgets.boxes import STRETCH, vbox
from wina_app.widgets.controls import push_button, text_label
from wina_app.widgets.start_button import StartButton


class StartView(QScrollArea):
    """Three starting points, each with what to expect."""

    demo_requested = Signal()
    folder_requested = Signal()
    machine_requested = Signal()
    results_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.demo = StartCard(
            "model",
            tr("Explore the demo"),
            tr(
                "A small Llama, really trained and shipped with the workbench. Everything works on it without a "
                "network, and a first result takes about two minutes."
            ),
            tr("Open the demo model"),
        )
        self.folder = StartCard(
            "folder",
            tr("Open your own model"),
            tr(
                "A folder with config.json and safetensors, or a GGUF file; or type a Hugging Face id at the left. "
                "Weights are read, nothing in the folder is ever run."
            ),
            tr("Choose a folder…"),
        )
        self.results = StartCard(
            "results",
            tr("Explore results"),
            tr("Tables and plots of all stored results, or of another results database. No model is needed."),
            tr("Open results"),
        )
        self.on_machine = push_button(tr("Open on a machine…"), self.machine_requested.emit, role="link")
        self.on_machine.hide()
        self.folder.column.addWidget(self.on_machine, 0, Qt.AlignmentFlag.AlignLeft)
        self.demo.button.clicked.connect(self.demo_requested)
        self.folder.button.clicked.connect(self.folder_requested)
        self.results.button.clicked.connect(self.results_requested)
        self.demo.button.setProperty("role", "primary")
        self._cards = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._cards.setSpacing(GRID * 2)
        self._every = (self.demo, self.folder, self.results)
        for card in self._every:
            self._cards.addWidget(card, 1)
        content = QWidget()
        content.setProperty("role", "surface")
        content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        column = vbox(
            content,
            STRETCH,
            text_label(tr("Start here"), "title"),
            margins=(GRID * 4, GRID * 4, GRID * 4, GRID * 4),
            spacing=GRID * 2,
        )
        column.addWidget(
            text_label(
                tr(
                    "The workbench measures what a language model loses when it skips the weights whose inputs hardly "
                    "matter, and how much faster it gets. F1 opens the guide, Ctrl+K finds every command."
                ),
                wrap=True,
            )
        )
        column.addSpacing(GRID)
        column.addLayout(self._cards)
        column.addStretch(2)
        self.setWidget(content)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def offer_machines(self, known: bool) -> None:
        """Offer to open a model on a machine where there is one."""
        self.on_machine.setVisible(known)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange the cards in a row if there is room, else in a column."""
        room = self.width() >= sum(card.minimumSizeHint().width() + 4 * GRID for card in self._every)
        self._cards.setDirection(QBoxLayout.Direction.LeftToRight if room else QBoxLayout.Direction.TopToBottom)
        super().resizeEvent(event)


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
        column.addWidget(self.button, 0, Qt.AlignmentFlag.AlignLeft)
        notifier().changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self._icon.setPixmap(icon(self._drawing).pixmap(GRID * 4, GRID * 4))
