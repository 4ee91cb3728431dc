"""Form of the Evaluate page: tasks with their search, data, few-shot, limit, batch size and fidelity."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QCheckBox,
    QCompleter,
    QFileDialog,
    QHeaderView,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QSpinBox,
    QTreeView,
    QVBoxLayout,
)

from wina_app.shared.evaluation_choice import DEMO_TASKS, FIRST_DOCUMENTS, FIRST_TASKS, FIRST_TOKENS
from wina_app.shared.launch_fields import DataFolder, LaunchFields
from wina_app.style.theme import GRID, apply_stylesheet
from wina_app.widgets.controls import (
    CollapsibleSection,
    SidePanel,
    beside,
    labelled,
    push_button,
    text_label,
    with_term,
)
from wina_app.widgets.fields import choices, whole_number
from wina_core.specs import COST_CONTEXT, PREFILL_POLICIES, TextSpec
from wina_core.studies.tasks.index import TaskEntry

_REST_MS = 80
"""Pause after typing before the index is searched."""
_ROWS = 12
_KIND_WIDTH = 22 * GRID

_LIST_HEIGHT = GRID * 14


class TaskSearch(QLineEdit):
    """Search line that emits queries, and the chosen or typed names."""

    search_requested = Signal(str)
    chosen = Signal(list)

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText("Search all tasks")
        self.setAccessibleName("Task name")
        self.setToolTip("Tasks, groups or tags of lm-eval or a task folder, separated by commas")
        self.setClearButtonEnabled(True)
        self._matches = QStandardItemModel(0, 2, self)
        self.popup = QTreeView()
        self.popup.setRootIsDecorated(False)
        self.popup.setAccessibleName("Tasks found")
        self.popup.setHeaderHidden(True)
        self.popup.setMinimumWidth(50 * GRID)
        completer = QCompleter(self._matches, self)
        completer.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
        completer.setPopup(self.popup)
        apply_stylesheet(self.popup)  # a popup has no parent whose style sheet reaches it
        completer.setMaxVisibleItems(_ROWS)
        completer.setWidget(self)  # not QLineEdit.setCompleter, which completes whatever is typed at once
        completer.activated[str].connect(self._choose)  # type: ignore[index]  # PySide lists no overloads
        self._completer = completer
        self._rest = QTimer(self, singleShot=True, interval=_REST_MS)
        self._rest.timeout.connect(lambda: self.search_requested.emit(self._query()))
        self.textEdited.connect(lambda _: self._rest.start())
        self.returnPressed.connect(self.take)
        self.popup.installEventFilter(self)

    def take(self) -> None:
        """Choose the typed names."""
        names = [name for name in self.text().replace(",", " ").split() if name]
        self._rest.stop()
        self.popup.hide()
        if names:
            self.clear()
            self.chosen.emit(names)

    def show_matches(self, entries: Sequence[TaskEntry]) -> None:
        """Show the matches, the best first; no match closes the list."""
        self._matches.setRowCount(0)
        for entry in entries:
            self._matches.appendRow([QStandardItem(entry.name), QStandardItem(_kind(entry))])
        # A late answer must not open a list over another field.
        if not entries or not self.hasFocus() or not self._query():
            self.popup.hide()
            return
        self._completer.complete()
        header = self.popup.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.resizeSection(1, _KIND_WIDTH)

    def matches(self) -> list[str]:
        return [self._matches.item(row, 0).text() for row in range(self._matches.rowCount())]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Choose the marked row or the typed text on Enter; Qt would choose both."""
        enter = isinstance(event, QKeyEvent) and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if not enter or event.type() != QEvent.Type.KeyPress:
            return super().eventFilter(watched, event)
        marked = self.popup.selectionModel().selectedRows()
        if marked:
            self._choose(marked[0].data())
        else:
            self.take()
        return True

    def _query(self) -> str:
        return self.text().rpartition(",")[2].strip()

    def _choose(self, name: str) -> None:
        typed = self.text().rpartition(",")[0]
        self.setText(f"{typed}, {name}" if typed else name)
        self.take()


def _kind(entry: TaskEntry) -> str:
    """Return a task's output type in words, or "group" or "tag"."""
    return entry.output_type.replace("_", " ") or entry.kind if entry.kind == "task" else entry.kind


class MeasurementsPanel(SidePanel):
    """The choice of the measurements."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__(GRID * 38)
        self._is_demo = True
        self._build_tasks(self.column)
        self._build_data(self.column)
        self._build_settings(self.column)
        self._build_advanced(self.column)
        self.column.addStretch(1)

    def _build_tasks(self, column: QVBoxLayout) -> None:
        column.addWidget(text_label("Tasks", "section"))
        self.list = QListWidget()
        self.list.setAccessibleName("Tasks")
        self.list.setFixedHeight(_LIST_HEIGHT)
        self.list.setSpacing(2)
        self.list.itemChanged.connect(lambda _: self.changed.emit())
        column.addWidget(self.list)
        self.search = TaskSearch()
        self.search.chosen.connect(self.add_tasks)
        add = push_button("Add", self.search.take, name="Add task")
        column.addLayout(beside(self.search, add, stretch=self.search))
        self.remark = text_label("", "muted", wrap=True)
        self.remark.hide()
        column.addWidget(self.remark)
        folder = push_button(
            "Add task folder…",
            self._choose_folder,
            tip="A folder of lm-eval task files (YAML), beside the built-in ones",
        )
        column.addLayout(beside(folder))
        self.folders: list[str] = []
        self._folders = text_label("", "muted", wrap=True)
        self._folders.hide()
        column.addWidget(self._folders)
        column.addSpacing(GRID)

    def _build_data(self, column: QVBoxLayout) -> None:
        self.data = DataFolder()
        self.data.edit.textChanged.connect(self.changed)
        column.addWidget(self.data)
        column.addSpacing(GRID)

    def _build_advanced(self, column: QVBoxLayout) -> None:
        self.advanced = CollapsibleSection("Advanced")
        self.options = LaunchFields()
        self.options.changed.connect(self.changed)
        self.advanced.column.addWidget(self.options)
        column.addWidget(self.advanced)

    def _build_settings(self, column: QVBoxLayout) -> None:
        column.addLayout(with_term(text_label("Fidelity on a text", "section"), "Fidelity"))
        self.original = QCheckBox("To the original model")
        self.original.setAccessibleName("Measure the fidelity to the original model")
        self.original.setToolTip(
            "KL, same top token, perplexity: against the model dense, unrotated and unquantized, read once per text"
        )
        self.fidelity = QCheckBox("To the same model without gates")
        self.fidelity.setAccessibleName("Measure the fidelity to the same model without gates")
        self.fidelity.setToolTip("KL, perplexity, top-1 agreement: what the gates alone change")
        self.fidelity_text = QLineEdit("demo:heldout")
        column.addWidget(self.original)
        column.addWidget(self.fidelity)
        self.fidelity_text.setToolTip(
            "demo:heldout (CPython's documentation), a UTF-8 file, JSON lines as test.jsonl[3500:5153], or a text "
            "of the data folder as data:wikitext"
        )
        self.fidelity_text.textChanged.connect(self._on_text)
        column.addLayout(labelled("Text", self.fidelity_text))
        self._domain = text_label(
            "CPython's documentation, the demo's domain: measure other models on prose, too.", "muted", wrap=True
        )
        self._domain.hide()
        column.addWidget(self._domain)
        self.fidelity_tokens = self._number(TextSpec().sequence, 100_000_000, TextSpec().tokens, " tokens")
        self.fidelity_tokens.setToolTip(
            "In rows spread evenly over the text, at least one; more tokens measure more precisely"
        )
        column.addLayout(labelled("Tokens to measure", self.fidelity_tokens))
        self.second_half = QCheckBox("Second half of each row only")
        self.second_half.setAccessibleName("Compare only the second half of each row of the text")
        self.second_half.setToolTip("As llama-perplexity does; ticked where its numbers are imported for the model")
        self.second_half.toggled.connect(self.changed)
        column.addWidget(self.second_half)
        for box in (self.original, self.fidelity):
            box.setChecked(True)
            box.toggled.connect(self._on_fidelity)
        column.addSpacing(GRID)
        column.addWidget(text_label("Settings", "section"))
        self.limit = self._number(0, 10_000_000, 0, " documents", "all")
        self.fewshot = self._number(-1, 100, -1, " examples", "as in the task")
        self.batch = self._number(0, 4_096, 16, " sequences", "automatic")
        self.batch.setToolTip("Sequences per forward pass; automatic, one step below 1, takes as many as memory allows")
        self.context = self._number(0, 10_000_000, COST_CONTEXT, " positions", "not counted")
        self.context.setToolTip("Positions that a token attends to, to count the bytes it reads and its operations")
        self.prefix = choices()
        for name, fraction in PREFILL_POLICIES.items():
            self.prefix.addItem(
                f"{name} ({100 * fraction:.0f} % dense)" if fraction else name,
                fraction,
            )
        self.prefix.currentIndexChanged.connect(self.changed)
        column.addLayout(labelled("Limit per task", self.limit))
        column.addLayout(labelled("Few-shot", self.fewshot, term="Few-shot"))
        self.chat_template = QCheckBox("Apply the chat template")
        self.chat_template.toggled.connect(self.changed)
        self.show_template(available=False)
        column.addWidget(self.chat_template)
        column.addLayout(labelled("Batch size", self.batch))
        column.addLayout(labelled("Context of a token's cost", self.context))
        column.addLayout(labelled("Dense prefix of a sequence", self.prefix, term="Dense prefix"))

    def _on_fidelity(self) -> None:
        needed = self.original.isChecked() or self.fidelity.isChecked()
        self.fidelity_text.setEnabled(needed)
        self.fidelity_tokens.setEnabled(needed)
        self.second_half.setEnabled(needed)
        self.changed.emit()

    def _on_text(self) -> None:
        self._domain.setVisible(not self._is_demo and self.fidelity_text.text().strip().startswith("demo:"))
        self.changed.emit()

    def _number(self, low: int, high: int, value: int, suffix: str, lowest: str = "") -> QSpinBox:
        box = whole_number(low, high, value, suffix, lowest=lowest)
        box.valueChanged.connect(self.changed)
        return box

    def fields(self) -> dict[str, Any]:
        """Return the fields of `EvaluationChoice` for the measurements."""
        text = self.fidelity_text.text().strip()
        ticked = [name for name, item in self._listed().items() if item.checkState() == Qt.CheckState.Checked]
        return {
            "tasks": tuple(ticked),
            "task_folders": tuple(self.folders),
            "data_folder": self.data.edit.text(),
            "limit": self.limit.value() or None,
            "num_fewshot": None if self.fewshot.value() < 0 else self.fewshot.value(),
            "chat_template": self.chat_template.isEnabled() and self.chat_template.isChecked(),
            "batch_size": self.batch.value() or "auto",
            "dense_prefix": self.prefix.currentData(),
            "fidelity_tokens": self.fidelity_tokens.value(),
            "fidelity": text if self.fidelity.isChecked() else None,
            "cost_context": self.context.value() or None,
            "original": text if self.original.isChecked() else None,
            "second_half": self.second_half.isChecked(),
            "samples": self.options.choice().samples,
            "run_model_code": self.options.choice().run_model_code,
        }

    def add_tasks(self, names: list[str]) -> None:
        """Tick tasks, and list new ones."""
        listed = self._listed()
        for name in names:
            if name in listed:
                listed[name].setCheckState(Qt.CheckState.Checked)
            else:
                self._append(name, name)
        self.changed.emit()

    def begin_demo(self) -> None:
        """List the demo's tasks, with limits for a short first comparison."""
        self.limit.setValue(FIRST_DOCUMENTS)
        self.fidelity_tokens.setValue(FIRST_TOKENS)
        for name in DEMO_TASKS:
            self._append(name, name)

    def show_template(self, *, available: bool) -> None:
        """Offer the chat template if the model has one."""
        self.chat_template.setEnabled(available)
        self.chat_template.setToolTip(
            "Tasks are asked as a user's message, few-shot examples as earlier turns; the results say so"
            if available
            else "The model has no chat template: its tokenizer comes without one"
        )

    def suit_model(self, *, is_demo: bool) -> None:
        """Tick the demo's first task only for the demo, which others cannot answer; remark on its text for others."""
        self._is_demo = is_demo
        self._on_text()
        for name, item in self._listed().items():
            if name in DEMO_TASKS:
                on = is_demo and name in FIRST_TASKS
                item.setCheckState(Qt.CheckState.Checked if on else Qt.CheckState.Unchecked)

    def ticks(self) -> dict[str, bool]:
        return {name: item.checkState() == Qt.CheckState.Checked for name, item in self._listed().items()}

    def set_ticks(self, ticks: Mapping[str, bool]) -> None:
        """Tick or untick tasks, and list new ones."""
        self.add_tasks([name for name in ticks if name not in self._listed()])
        for name, item in self._listed().items():
            on = ticks.get(name, item.checkState() == Qt.CheckState.Checked)
            item.setCheckState(Qt.CheckState.Checked if on else Qt.CheckState.Unchecked)

    def _listed(self) -> dict[str, QListWidgetItem]:
        items = [self.list.item(row) for row in range(self.list.count())]
        return {item.data(Qt.ItemDataRole.UserRole): item for item in items}

    def _append(self, name: str, text: str) -> None:
        item = QListWidgetItem(text)
        item.setData(Qt.ItemDataRole.UserRole, name)
        item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
        item.setCheckState(Qt.CheckState.Checked)
        self.list.addItem(item)

    def show_remark(self, text: str) -> None:
        """Say why some tasks are not found yet; empty if all are."""
        self.remark.setText(text)
        self.remark.setVisible(bool(text))

    def _choose_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Add task folder")
        if folder:
            self.add_folders([folder])

    def add_folders(self, folders: Iterable[str]) -> None:
        """Search further folders for tasks."""
        new = [folder for folder in folders if folder not in self.folders]
        if new:
            self.folders += new
            self._folders.setText("\n".join(self.folders))
            self._folders.show()
            self.changed.emit()
