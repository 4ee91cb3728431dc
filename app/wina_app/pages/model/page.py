"""View of the Model page."""

from collections.abc import Iterator
from typing import get_args

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QScrollArea,
    QStackedWidget,
    QWidget,
)

from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.model.cost_panel import CostPanel
from wina_app.pages.model.start_view import LicenceDialog, StartView
from wina_app.shared.job_strip import JobStrip
from wina_app.style.number_format import count, percent, size
from wina_app.style.theme import GRID
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import Readouts, SidePanel, beside, labelled, push_button, text_label
from wina_app.widgets.fields import choices
from wina_app.widgets.file_dialogs import choose_gguf_file
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.start_button import start_button
from wina_core.model_info.small_models import Origin, SmallModel
from wina_core.records import ModelSummary
from wina_core.specs import DType, ModelSource, Quantization, QuantizationSpec, quantization_label

_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
_BY_ENERGY = (
    "More bits for the inputs with more energy, each matrix its share; no more memory than the same bits for all. "
    "Reads the calibration text"
)
_QUANTIZATIONS: tuple[tuple[str, Quantization, str], ...] = (
    ("None", "none", "The weights stay in the data type above"),
    ("8 bits (torchao)", "int8", "Weight-only: one scale for each output, after the rotation"),
    (
        "4 bits (HQQ)",
        "int4",
        "Weight-only: one scale and zero point for every 64 weights, after the rotation",
    ),
    (
        "4 bits (GPTQ)",
        QuantizationSpec(quantizer="gptq"),
        "Errors are compensated in the inputs that follow, by their second moments on the calibration text",
    ),
    ("4 bits by energy (GPTQ)", QuantizationSpec(quantizer="gptq", by_energy=True), _BY_ENERGY),
    ("3 bits by energy (GPTQ)", QuantizationSpec(quantizer="gptq", bits=3, by_energy=True), _BY_ENERGY),
)
"""Frequent choices; the Sparsity page has all others."""
_AUTOMATIC = "As stored; 16-bit weights in float32 where the processor has no units for bfloat16 and memory allows"
_HINT = (
    "A folder with config.json and safetensors, or a GGUF file; or a Hugging Face id such as meta-llama/Llama-3.2-1B."
)


class _RecentList(QListWidget):
    """List that takes the remaining room and scrolls."""

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), GRID * 9)  # the minimum, so that texts above keep their room

    def minimumSizeHint(self) -> QSize:
        return QSize(super().minimumSizeHint().width(), GRID * 9)


class ModelPage(Page):
    """Page to open a model and see its size, memory and costs."""

    open_requested = Signal(str, str, object)
    forget_requested = Signal(str)

    def __init__(self) -> None:
        super().__init__("model", "Model")
        self.set_primary("Evaluate this model", enabled=False, reason="Open a model first")
        self.primary_triggered.connect(lambda: self.crumb_clicked.emit("evaluate"))
        self._open_model: tuple[str, ModelSource, ModelSummary] | None = None
        """The open model."""
        self._next: tuple[str, ModelSource, ModelSummary] | None = None
        """The model to show in the next turn of the event loop: the open one, or one that is being loaded."""
        self.demo = start_button("Open the demo model", lambda: self._open("demo"))
        self.folder = push_button("Open folder…", self.choose_folder)
        self.header_actions.addWidget(self.demo)
        self.file = push_button("Open GGUF file…", self._choose_file)
        self.header_actions.addWidget(self.folder)
        self.header_actions.addWidget(self.file)
        content = QWidget()
        hbox(content, self._build_side(), (self._build_summary(), 1), spacing=0)
        self.set_content(content)
        self.remembered = {
            "location": self.location,
            "dtype": self.dtype,
            "quantization": self.quantization,
            "method": self.cost.method,
            "sparsity": self.cost.sparsity,
            "context": self.cost.context,
        }
        self.add_command("Type a folder or model id", self._type_location, "Ctrl+Shift+M")
        self.add_command("Load the typed model", self._open_typed, "Ctrl+Shift+L")

    def _type_location(self) -> None:
        self.location.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.location.selectAll()

    def _build_side(self) -> QWidget:
        self.location = QLineEdit()
        self.location.setPlaceholderText("Folder, GGUF file or model id")
        self.location.returnPressed.connect(self._open_typed)
        self.dtype = choices()
        for name in get_args(DType):
            self.dtype.addItem("automatic" if name == "auto" else name, name)
        self.dtype.setItemData(0, _AUTOMATIC, Qt.ItemDataRole.ToolTipRole)
        self.quantization = choices(_QUANTIZATIONS)
        self._not_loaded = text_label("", "muted", wrap=True)
        self._not_loaded.hide()
        for box in (self.dtype, self.quantization):
            box.currentIndexChanged.connect(self._mark_choice)
        self.load = start_button("Load", self._open_typed, name="Load the typed model")
        self.recent = _RecentList()
        self.recent.setAccessibleName("Recent models")
        self.recent.setSpacing(2)
        self.recent.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.recent.itemActivated.connect(lambda item: self._open(item.data(Qt.ItemDataRole.UserRole)))
        self.recent.setToolTip("Double-click or press Enter to open; Delete removes an entry")
        area = SidePanel(GRID * 42)
        column = area.column
        column.addLayout(labelled("Folder, GGUF file or Hugging Face id", self.location, hint=_HINT))
        column.addSpacing(GRID)
        column.addLayout(labelled("Data type in memory", self.dtype))
        column.addLayout(labelled("Quantization of the gated weights", self.quantization, term="Gated weights"))
        column.addWidget(self._not_loaded)
        column.addLayout(beside(self.load))
        column.addSpacing(GRID)
        column.addWidget(text_label("Recent models", "section"))
        self._no_recent = text_label("Opened models appear here.", "muted", wrap=True)
        column.addWidget(self._no_recent)
        column.addWidget(self.recent, 100)
        column.addWidget(text_label("You can also drop a folder or a GGUF file onto the window.", "muted", wrap=True))
        column.addStretch(1)  # all of the room while no list is shown
        return area

    def _build_summary(self) -> QWidget:
        self._name = text_label("", "title")
        self._name.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._where = text_label("", "muted", wrap=True)
        self._where.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.remarks = text_label("", wrap=True)
        self.remarks.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.figures = Readouts(columns=5)
        self.projections = Readouts(columns=5)
        self.memory = Readouts(columns=5)
        self.cost = CostPanel()
        content = QWidget()
        content.setProperty("role", "surface")
        content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        vbox(
            content,
            self._name,
            self._where,
            self.remarks,
            GRID,
            self.figures,
            GRID,
            self.cost,
            GRID * 2,
            text_label("Weights per projection, all layers", "section"),
            self.projections,
            GRID * 2,
            text_label("Memory of unquantized weights by data type", "section"),
            self.memory,
            STRETCH,
            margins=(GRID * 3, GRID * 2, GRID * 3, GRID * 2),
        )
        area = QScrollArea()
        area.setWidget(content)
        area.setWidgetResizable(True)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)

        self.begin = StartView()
        self.begin.demo.button.clicked.connect(lambda: self._open("demo"))
        self.begin.folder.button.clicked.connect(self.choose_folder)
        self.begin.file_requested.connect(self._choose_file)
        self.begin.model_requested.connect(self._open)
        self._pane_stack = QStackedWidget()
        self._panes = {"empty": self.begin, "summary": area}
        for pane in self._panes.values():
            self._pane_stack.addWidget(pane)
        self.progress = JobStrip("Loading progress", "Cancel loading")
        whole = QWidget()
        vbox(whole, (self._pane_stack, 1), self.progress, spacing=0)  # below: nothing above it moves
        return whole

    def choose_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Open model folder", self.location.text())
        if folder:
            self._open(folder)

    def _choose_file(self) -> None:
        choose_gguf_file(self, lambda path: self._open(str(path)))

    def _open_typed(self) -> None:
        self._open(self.location.text())

    def _open(self, location: str) -> None:
        self.open_requested.emit(location, self.dtype.currentData(), self.quantization.currentData())

    def _mark_choice(self) -> None:
        """Say if the chosen data type or quantization is not loaded yet."""
        chosen = (self.dtype.currentData(), self.quantization.currentData())
        source = None if self._open_model is None else self._open_model[1]
        loaded = source is None or chosen == (source.dtype, source.quantization)
        self._not_loaded.setText("" if loaded else "Not loaded yet: all pages use the model as last loaded.")
        self._not_loaded.setVisible(not loaded)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Remove the selected recent model on Delete."""
        item = self.recent.currentItem()
        if event.key() == Qt.Key.Key_Delete and self.recent.hasFocus() and item is not None:
            self.forget_requested.emit(item.data(Qt.ItemDataRole.UserRole))
        else:
            super().keyPressEvent(event)

    def show_recent(self, locations: list[str]) -> None:
        self.recent.clear()
        self.recent.setVisible(bool(locations))
        self._no_recent.setVisible(not locations)
        for location in locations:
            item = QListWidgetItem(location)
            item.setData(Qt.ItemDataRole.UserRole, location)
            item.setToolTip(plain_tip(location))
            self.recent.addItem(item)

    def show_location(self, location: str) -> None:
        self.location.setText(location)

    def ask_licence(self, model: SmallModel) -> bool:
        """Ask whether the user accepts the licence of a model, to be fetched then."""
        dialog = LicenceDialog(self, model)
        agreed = dialog.exec() == QDialog.DialogCode.Accepted
        dialog.deleteLater()
        return agreed

    def show_origin(self, name: str, origin: Origin | None) -> None:
        """Show where a small model came from; None if it is not here."""
        self.begin.small_models[name].show_origin(origin)

    def show_fetching(self, name: str, entry: JobEntry | None) -> None:
        """Show the progress of fetching a small model; None hides it."""
        self.begin.small_models[name].show_job(entry)

    def show_loading(self, entry: JobEntry | None, behind: str = "") -> None:
        """Show the loading progress, and the title of the job ahead of it; None hides it."""
        self.progress.show_job(entry, behind)
        if entry is not None:
            self.set_primary("Evaluate this model", enabled=False, reason="A model is being loaded")
        elif self._open_model is None:
            self._next = None
            self._pane_stack.setCurrentWidget(self._panes["empty"])
            self.set_primary("Evaluate this model", enabled=False, reason="Open a model first")
        else:
            self.show_summary(*self._open_model)

    def show_summary(self, name: str, source: ModelSource, summary: ModelSummary) -> None:
        """Show the loaded model."""
        self._open_model = name, source, summary
        self.set_primary("Evaluate this model")
        self._mark_choice()
        self._next = name, source, summary
        QTimer.singleShot(0, self, self._show_next)  # filling the pane takes a while: the window has its events first

    def _show_next(self) -> None:
        if self._next is None:  # two came at once
            return
        (name, source, summary), self._next = self._next, None
        self._name.setText(name)
        fingerprint = f"fingerprint {source.fingerprint}" if source.fingerprint else ""
        self._where.setText("  ·  ".join(filter(None, (summary.architecture, source.location, fingerprint))))
        self.remarks.setText("\n".join(summary.remarks))
        self.remarks.setVisible(bool(summary.remarks))
        bits = quantization_label(source.quantization)
        self.figures.show_figures(summary_figures(summary, bits))
        self.projections.show_figures(projection_figures(summary))
        self.memory.show_figures(memory_figures(summary))
        self.cost.reach(summary.context)
        QTimer.singleShot(0, self.cost.ask)
        self._pane_stack.setCurrentWidget(self._panes["summary"])


def summary_figures(summary: ModelSummary, quantization: str = "none") -> list[tuple[str, str, str]]:
    """Return (caption, number with unit, explanation) of each figure of a model."""
    cache = 2 * summary.layout.layers * summary.kv_heads * summary.head_dim * _BYTES.get(summary.dtype, 4) * 1024
    gated = summary.gated_parameters
    return [
        ("Parameters", count(summary.parameters),
         f"{summary.parameters:,}; a tied embedding counts once"),
        ("Gated weights", f"{count(gated)} ({percent(gated / summary.parameters)})",
         f"{gated:,} weights in the projections that can be gated"),
        ("Memory", size(summary.memory_bytes),
         f"{summary.memory_bytes:,} bytes of weights as loaded"),
        ("KV cache", f"{size(cache)} / 1,024 tokens",
         "Keys and values of one sequence, in the weights' data type"),
        ("Data type", summary.dtype if quantization == "none" else f"{summary.dtype}, {quantization}",
         "Data type of the weights in memory; only gated ones are quantized"),
        ("Decoder layers", f"{summary.layout.layers}", ""),
        ("Hidden size", f"{summary.hidden_size:,}", "Width of the residual stream"),
        ("MLP size", f"{summary.intermediate_size:,}", "Width between up and down"),
        *_expert_facts(summary),
        ("Heads × size", f"{summary.heads} × {summary.head_dim}", "Query heads × head dimension"),
        ("Key-value heads", f"{summary.kv_heads}", "Fewer than the query heads: grouped-query attention"),
        ("Vocabulary", f"{summary.vocabulary:,} tokens", ""),
        ("Context", f"{summary.context:,} tokens",
         "Longest sequence of the model"),
        ("Embeddings", "tied" if summary.tied_embeddings else "untied",
         "Whether the output head shares the embedding's weights"),
        ("Family", summary.family, "Entry of the architecture table"),
    ]  # fmt: skip


def _expert_facts(summary: ModelSummary) -> list[tuple[str, str, str]]:
    """Return the experts of a Mixture of Experts; nothing for a dense model."""
    shape = summary.shape
    if shape is None or not any(shape.experts):
        return []
    layers = f"In {sum(map(bool, shape.experts))} of the layers; memory holds all experts"
    read = f"{shape.active_experts} of {max(shape.experts)} per token"
    return [("Experts", read, layers)]


def projection_figures(summary: ModelSummary) -> Iterator[tuple[str, str, str]]:
    """Yield the weights of each projection over all layers, then all ungated ones."""
    from wina_core.model_info.cost.matrices import held_by_projection  # with numpy, as in the page's controller

    rest = summary.parameters - summary.gated_parameters
    for name, total in (held_by_projection(summary) | {"not gated": rest}).items():
        tip = "Embeddings, head and norms" if name == "not gated" else ""
        yield name, f"{count(total)} ({percent(total / summary.parameters)})", f"{total:,} weights. {tip}".strip()


def memory_figures(summary: ModelSummary) -> list[tuple[str, str, str]]:
    """Return the bytes of all weights in each data type."""
    return [(dtype, size(summary.parameters * width), "") for dtype, width in _BYTES.items()]
