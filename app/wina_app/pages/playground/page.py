"""View of the Playground."""

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QStackedWidget, QWidget

from wina_app.pages.playground.form import PlaygroundForm
from wina_app.pages.playground.history import HistoryPanel
from wina_app.pages.playground.response_pane import DIVERGENCE, SIDES, CompletionPane, Side, token_readout
from wina_app.pages.playground.server import ServerPanel
from wina_app.plots.colour_bar import ColourBar
from wina_app.services.workbench import Workbench
from wina_app.style.theme import GRID
from wina_app.widgets.base_page import Page, with_shortcut
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import ElidedLabel, explain_disabled, push_button
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.segmented_control import SegmentedControl
from wina_core.jobs.completion import Completion
from wina_core.records.completions import CompletionToken

SERVE = "Serve a sparse model folder…"
_STOP_KEYS = "Ctrl+."
_COLOURS = (
    "Colour of a token: KL divergence of the sparse model's prediction from the dense model's, after the sparse "
    "completion so far."
)


class PlaygroundPage(Page):
    """Page that shows a dense and a sparse completion side by side."""

    changed = Signal()
    stop_requested = Signal()

    def __init__(
        self,
        workbench: Workbench,
        show_log: Callable[[str], object] = lambda _: None,
        show_server: Callable[[str, str], object] = lambda *_: None,
    ) -> None:
        """`show_log` shows the log of a job, `show_server` a server's text and tooltip in the status line."""
        super().__init__("playground", "Playground")
        self._completions: dict[Side, Completion | None] = dict.fromkeys(SIDES)
        self._divergence_index: int | None = None
        self._restored: tuple[object, object] | None = None
        """Texts of method and rotation of the last session, until a model is open."""
        self.form = PlaygroundForm()
        self.form.changed.connect(self.changed)
        self.server = ServerPanel(workbench, show_log, show_server)
        self.server.process.failed.connect(self.show_error)
        self.form.column.addSpacing(GRID)
        self.form.column.addWidget(self.server)
        self.form.column.addStretch(1)
        self.history = HistoryPanel(workbench, self.show_error)
        self.history.copy_requested.connect(self._copy_all)
        self.start = self.form.prompt
        self.stop = push_button("Stop", self.stop_requested.emit, name="Stop generating")
        self.header_actions.addWidget(self.stop)
        self.panes: dict[Side, CompletionPane] = {
            "dense": CompletionPane("dense", "Dense"),
            "sparse": CompletionPane("sparse", "Sparse"),
        }
        self.divergence = ElidedLabel("")
        self.pointed = ElidedLabel("muted")
        for side, pane in self.panes.items():
            pane.pointed.connect(lambda at, side=side: self._show_pointed(side, at))
        self.set_content(self._build())
        self.set_primary("Generate")
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("model"))
        self.remembered = self.form.inputs() | {"left": self.left}
        self._add_commands()

    def _build_left(self) -> QWidget:
        """Return the form and the stored completions, one of which is shown."""
        self.left = SegmentedControl(
            "Left column",
            (
                ("form", "Prompt", "Write a prompt and choose the sparse side"),
                ("history", "Stored", "Search and show earlier completions"),
            ),
        )
        self.left.chosen.connect(self.show_left)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.form)
        self._stack.addWidget(self.history)
        self._stack.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        column = QWidget()
        top = hbox(None, self.left, STRETCH, margins=(2 * GRID, GRID, 2 * GRID, 0))
        vbox(column, top, (self._stack, 1), spacing=0)
        return column

    def show_left(self, key: str) -> None:
        """Show the form or the stored completions in the left column."""
        self.left.choose(key)
        self._stack.setCurrentWidget(self.history if key == "history" else self.form)

    def _build(self) -> QWidget:
        sides = hbox(None, *((pane, 1) for pane in self.panes.values()), spacing=0)
        bar = ColourBar(gaps=False)
        bar.set_scale(DIVERGENCE)
        bar.setMaximumWidth(GRID * 40)
        bar.setToolTip(plain_tip(_COLOURS))
        lines = vbox(None, self.divergence, self.pointed, spacing=0)
        key = hbox(
            None,
            (bar, 1),
            HelpButton("Divergence colours"),
            (lines, 2),
            margins=(2 * GRID, 0, 2 * GRID, GRID),
            spacing=3 * GRID,
        )
        right = vbox(None, (sides, 1), key)
        content = QWidget()
        hbox(content, self._build_left(), (right, 1), spacing=0)
        return content

    def _add_commands(self) -> None:
        self.stop_action = self.add_command("Stop generating", self.stop.click, _STOP_KEYS)
        self.add_command(SERVE, self.server.open)
        self.add_command("Stop the server", self.server.stop)
        self.add_command("Type a prompt", self.type_prompt, "Ctrl+Shift+P")
        self.add_command("Search the stored completions", self._search_history, "Ctrl+F")
        self.add_command("Raise the sparsity", lambda: self.form.step_sparsity(1), "Ctrl+]")
        self.add_command("Lower the sparsity", lambda: self.form.step_sparsity(-1), "Ctrl+[")
        self.to_divergence = self.add_command(
            "Go to where the completions diverge", self.panes["sparse"].text.go_to_mark, "Ctrl+Shift+F"
        )
        self.copy_both = self.add_command("Copy both completions", self._copy_both, "Ctrl+Shift+A")

    def view_state(self) -> dict[str, object]:
        """Return the form, without a prompt that is not to be stored."""
        private = set() if self.form.store.isChecked() else {"prompt"}
        boxes = self.form.method.currentText(), self.form.rotation.currentText()
        chosen = dict(zip(("method", "rotation"), self._restored or boxes, strict=True))
        return {name: value for name, value in (super().view_state() | chosen).items() if name not in private}

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore the form; method and rotation follow once a model is open."""
        super().restore_view(state)
        self.show_left(self.left.value)
        self._restored = state.get("method"), state.get("rotation")

    def _restore_sparse_side(self) -> None:
        """Choose method and rotation of the last session."""
        if self._restored is not None:
            boxes, self._restored = zip((self.form.method, self.form.rotation), self._restored, strict=True), None
            for box, text in boxes:
                row = box.findText(str(text))
                box.setCurrentIndex(row if row >= 0 else box.currentIndex())
            self.changed.emit()

    def type_prompt(self) -> None:
        self.show_left("form")
        self.form.prompt.setFocus()

    def _search_history(self) -> None:
        self.show_left("history")
        self.history.search.setFocus()
        self.history.search.selectAll()

    def _copy_both(self) -> None:
        QGuiApplication.clipboard().setText("\n\n".join(self._texts()))

    def _copy_all(self) -> None:
        QGuiApplication.clipboard().setText("\n\n".join([self.history.prompt.toPlainText(), *self._texts()]))

    def _texts(self) -> Sequence[str]:
        completions = [completion for completion in self._completions.values() if completion is not None]
        return [f"{completion.spec.label}\n{completion.text}" for completion in completions]

    def _show_pointed(self, side: Side, at: int | None) -> None:
        completion = self._completions[side]
        if completion is None or at is None or at >= len(completion.tokens):
            self.pointed.setText("")
            return
        other = self._completions["sparse" if side == "dense" else "dense"]
        # Beyond the divergence, tokens at one position follow different prefixes and do not compare.
        agree = self._divergence_index is None or at < self._divergence_index
        same = other.tokens[at] if other is not None and agree and at < len(other.tokens) else None
        text = token_readout(side, at, completion.tokens[at], same)
        self.pointed.setText(text)
        self.panes[side].text.viewport().setToolTip(text)

    def show_context(self, breadcrumb: list[tuple[str, str]], *, ready: bool) -> None:
        """Show the header, or the empty state without a model."""
        self.set_breadcrumb(breadcrumb)
        if ready:
            self.show_content()
        else:
            self.show_empty(
                "No model to prompt",
                (
                    "Here the dense and a sparse model complete one prompt side by side, token by token, coloured by "
                    "their divergence, with the speed of each."
                ),
                "Open a model",
                wants_model=True,
                other=(SERVE, self.server.open),
            )

    def restore_sparse_side(self) -> None:
        """Choose method and rotation of the last session, after those of the other pages."""
        if not self.is_empty:
            QTimer.singleShot(0, self, self._restore_sparse_side)

    def show_action(self, *, running: bool, reason: str) -> None:
        """Enable stopping while running, and generating unless there is a reason against it."""
        self.set_primary("Generate", enabled=not reason, reason=reason)
        nothing = "Nothing is being generated"
        explain_disabled(self.stop, enabled=running, reason=nothing, explanation=with_shortcut("Stop", _STOP_KEYS))
        self.stop_action.setEnabled(running)
        self.stop_action.setToolTip(with_shortcut("Stop generating" if running else nothing, _STOP_KEYS))

    def show_waiting(self, text: str) -> None:
        """Say what happens before the first token; empty after it."""
        for pane in self.panes.values():
            pane.show_waiting(text)

    def show_completion(self, side: Side, completion: Completion | None) -> None:
        """Show a side's completion so far; None clears it."""
        self._completions[side] = completion
        self.panes[side].show_completion(completion)
        self.pointed.setText("")

    def add_token(self, side: Side, token: CompletionToken) -> None:
        self.panes[side].add_token(token)

    def show_figures(self, side: Side, figures: dict[str, str]) -> None:
        self.panes[side].show_figures(figures)
        self._align()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        QTimer.singleShot(0, self, self._align)  # once the panes have their width

    def _align(self) -> None:
        """Give both sides' read-outs the same height."""
        readouts = [pane.readouts for pane in self.panes.values()]
        height = max(readout.heightForWidth(readout.width()) for readout in readouts)
        for readout in readouts:
            readout.setMinimumHeight(height)

    def show_divergence(self, at: int | None, text: str) -> None:
        """Mark the token where the completions diverge, and say so."""
        self.divergence.setText(text)
        self._divergence_index = at
        for pane in self.panes.values():
            pane.text.mark(at)
