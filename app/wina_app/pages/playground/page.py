"""View of the Playground."""

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QWidget

from wina_app.pages.playground.form import PlaygroundForm
from wina_app.pages.playground.form_state import SIDES, PlaygroundChoices, PlaygroundSettings, Side, token_readout
from wina_app.pages.playground.response_pane import CompletionPane
from wina_app.pages.playground.token_text import DIVERGENCE
from wina_app.plots.colour_bar import ColourBar
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page, with_shortcut
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import ElidedLabel, explain_disabled, push_button, text_label
from wina_app.widgets.help_button import HelpButton
from wina_core.engine.protocol import Token
from wina_core.engine.protocol.completion import Completion
from wina_core.specs import MethodSpec, RotationSpec

_STOP_KEYS = "Ctrl+."
_HOW = tr(
    "The sides take turns on the same weights; every pass is timed alone. Colour: KL divergence of the sparse model's "
    "next token from the dense model's, after the sparse completion so far."
)


class PlaygroundPage(Page):
    """Page that shows a dense and a sparse completion side by side."""

    changed = Signal()
    generate_requested = Signal()
    stop_requested = Signal()

    def __init__(self) -> None:
        super().__init__("playground", tr("Playground"))
        self._completions: dict[Side, Completion | None] = dict.fromkeys(SIDES)
        self._part: int | None = None
        self.form = PlaygroundForm()
        self.form.changed.connect(self.changed)
        self.start = self.form.prompt
        self.waiting = text_label("", "muted")
        self.stop = push_button(tr("Stop"), self.stop_requested.emit, name=tr("Stop generating"))
        self.header_actions.addWidget(self.waiting)
        self.header_actions.addWidget(self.stop)
        self.panes: dict[Side, CompletionPane] = {
            "dense": CompletionPane("dense", tr("Dense")),
            "sparse": CompletionPane("sparse", tr("Sparse")),
        }
        self.part = ElidedLabel("")
        self.pointed = ElidedLabel("muted")
        for side, pane in self.panes.items():
            pane.pointed.connect(lambda at, side=side: self._show_pointed(side, at))
        self.set_content(self._build())
        self.set_primary(tr("Generate"))
        self.primary_triggered.connect(self.generate_requested)
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("model"))
        self._add_commands()

    def _build(self) -> QWidget:
        sides = hbox(None, *((pane, 1) for pane in self.panes.values()), spacing=0)
        bar = ColourBar(gaps=False)
        bar.set_scale(DIVERGENCE)
        bar.setMaximumWidth(GRID * 40)
        lines = vbox(None, self.part, self.pointed, spacing=0)
        key = hbox(
            None,
            (bar, 1),
            HelpButton("Divergence colours"),
            (lines, 2),
            margins=(2 * GRID, 0, 2 * GRID, 0),
            spacing=3 * GRID,
        )
        how = text_label(_HOW, "muted", wrap=True)
        how.setContentsMargins(2 * GRID, 0, 2 * GRID, GRID)
        right = vbox(None, (sides, 1), key, how)
        content = QWidget()
        hbox(content, self.form, (right, 1), spacing=0)
        return content

    def _add_commands(self) -> None:
        self.stop_action = self.add_command(tr("Stop generating"), self.stop.click, _STOP_KEYS)
        self.add_command(tr("Type a prompt"), self.form.prompt.setFocus, "Ctrl+Shift+P")
        self.add_command(tr("Raise the sparsity"), lambda: self.form.step_sparsity(1), "Ctrl+]")
        self.add_command(tr("Lower the sparsity"), lambda: self.form.step_sparsity(-1), "Ctrl+[")
        self.to_divergence = self.add_command(
            tr("Go to where the completions diverge"), self.panes["sparse"].text.go_to_mark, "Ctrl+Shift+F"
        )
        self.copy_both = self.add_command(tr("Copy both completions"), self._copy_both, "Ctrl+Shift+A")

    def choice(self) -> PlaygroundSettings:
        return self.form.choice()

    def _copy_both(self) -> None:
        parts = [
            f"{completion.spec.label}\n{completion.text}"
            for completion in self._completions.values()
            if completion is not None
        ]
        QGuiApplication.clipboard().setText("\n\n".join(parts))

    def _show_pointed(self, side: Side, at: int | None) -> None:
        completion = self._completions[side]
        if completion is None or at is None or at >= len(completion.tokens):
            self.pointed.setText("")
            return
        other = self._completions["sparse" if side == "dense" else "dense"]
        agree = self._part is None or at < self._part
        same = other.tokens[at] if other is not None and agree and at < len(other.tokens) else None
        text = token_readout(side, at, completion.tokens[at], same)
        self.pointed.setText(text)
        self.panes[side].text.viewport().setToolTip(text)

    def show_context(self, breadcrumb: list[tuple[str, str]], ready: bool) -> None:
        self.set_breadcrumb(breadcrumb)
        if ready:
            self.show_content()
        else:
            self.show_empty(
                tr("No model to prompt"),
                tr(
                    "Here the dense and a sparse model complete one prompt side by side, token by token, coloured by "
                    "their divergence, with the speed of each."
                ),
                tr("Open a model"),
                wants_model=True,
            )

    def show_choices(self, choices: PlaygroundChoices, rotation: RotationSpec, method: MethodSpec) -> None:
        self.form.show_choices(choices, rotation, method)

    def show_prompts(self, prompts: list[str]) -> None:
        self.form.show_prompts(prompts)

    def show_action(self, *, running: bool, reason: str) -> None:
        self.set_primary(tr("Generate"), enabled=not reason, reason=reason)
        nothing = tr("Nothing is being generated")
        explain_disabled(self.stop, enabled=running, reason=nothing, explanation=with_shortcut(tr("Stop"), _STOP_KEYS))
        self.stop_action.setEnabled(running)
        self.stop_action.setToolTip(with_shortcut(tr("Stop generating") if running else nothing, _STOP_KEYS))

    def show_waiting(self, text: str) -> None:
        self.waiting.setText(text)

    def show_completion(self, side: Side, completion: Completion | None) -> None:
        self._completions[side] = completion
        self.panes[side].show_completion(completion)
        self.pointed.setText("")

    def add_token(self, side: Side, token: Token) -> None:
        self.panes[side].add_token(token)

    def show_figures(self, side: Side, figures: dict[str, str]) -> None:
        self.panes[side].show_figures(figures)
        self._align()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep both completions equally high."""
        super().resizeEvent(event)
        QTimer.singleShot(0, self, self._align)  # once the panes have their width

    def _align(self) -> None:
        """Give both sides' read-outs the same height."""
        readouts = [pane.readouts for pane in self.panes.values()]
        height = max(each.heightForWidth(each.width()) for each in readouts)
        for each in readouts:
            each.setMinimumHeight(height)

    def show_divergence(self, at: int | None, text: str) -> None:
        self.part.setText(text)
        self._part = at
        for pane in self.panes.values():
            pane.text.mark(at)
