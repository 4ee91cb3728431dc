"""Form of the Playground: prompt, sparse side and sampling."""

from functools import partial

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QMenu, QPlainTextEdit, QSlider, QToolButton, QWidget

from wina_app.services.workspace import Workspace
from wina_app.shared.rotation_choices import ROTATION_PRESETS, is_exact
from wina_app.style.number_format import fraction, percent
from wina_app.style.theme import GRID
from wina_app.widgets.boxes import hbox
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import (
    CollapsibleSection,
    SidePanel,
    explain_disabled,
    ignore_unfocused_wheel,
    labelled,
    text_label,
    wrap_words,
)
from wina_app.widgets.fields import decimal, whole_number
from wina_app.widgets.plain_text import plain_tip
from wina_core.jobs import GenerateJob
from wina_core.specs import DENSE, CalibrationSpec, MethodSpec, ModelSource, RotationSpec, method_specs
from wina_core.specs.generation import MOST_TOKENS, CompletionPoint, CompletionSpec, SamplingSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity

PROMPTS: dict[str, str] = {
    "A function's documentation": 'def median(data):\n    """Return the median',
    "The body of a function": "def read_lines(path):\n    with open(path) as file:\n",
    "A unit test": "class TestDict(unittest.TestCase):\n    def test_update(self):\n",
    "Documentation in prose": "The following example shows how to open a file and read its lines::\n\n",
    "A fact": "The capital of France is",
    "An explanation": "Explain in one paragraph why large language models can leave out activations.",
}
"""Example prompts; the first four suit the demo model, trained on Python's library."""
SHORT = 60
"""Characters of a prompt in one line."""
_WIDTH = GRID * 46
_MOST_PERCENT = 99
_STEP = 5
_FIRST_PERCENT = 50
_LIVE = "A change here restarts the sparse side at once; the dense side continues."
_STORE = (
    "Completions go into the results database with their prompt, and the prompt into the list of recent ones. If "
    "off, later prompts and completions are not kept."
)
_LATER = "A change here applies to the next prompt."


class PlaygroundForm(SidePanel):
    """Form of a completion."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__(_WIDTH)
        self._recent: list[str] = []
        self._add_prompt()
        self.column.addSpacing(GRID)
        self._add_sparse_side()
        self._add_sampling()

    def _add_prompt(self) -> None:
        self.examples = QToolButton()
        self.examples.setText("Examples and history")
        self.examples.setAccessibleName("Examples and history of prompts")
        self.examples.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.examples.setMenu(QMenu(self.examples))
        self.examples.menu().setAccessibleName(self.examples.accessibleName())
        self.examples.menu().aboutToShow.connect(self._fill_examples)
        self.prompt = QPlainTextEdit()
        self.prompt.setAccessibleName("Prompt")
        self.prompt.setPlaceholderText("Text to complete")
        wrap_words(self.prompt)
        self.prompt.setTabChangesFocus(True)
        self.prompt.setFixedHeight(GRID * 12)
        self.prompt.setPlainText(next(iter(PROMPTS.values())))
        self.prompt.textChanged.connect(self.changed)
        self.chat = QCheckBox("Apply the chat template")
        self.chat.setAccessibleName("Put the prompt into the chat template")
        self.chat.toggled.connect(self.changed)
        self.store = QCheckBox("Store completions")
        self.store.setChecked(True)
        self.store.setToolTip(plain_tip(_STORE))
        self.store.setAccessibleDescription(_STORE)
        self.store.toggled.connect(self.changed)
        heading = hbox(None, (text_label("Prompt", "section"), 1), self.examples, spacing=-1)
        self.column.addLayout(heading)
        self.column.addWidget(self.prompt)
        self.column.addWidget(self.chat)
        self.column.addWidget(self.store)

    def _add_sparse_side(self) -> None:
        self.method, self.rotation = ComboBox("Method"), ComboBox("Rotation")
        for box in (self.method, self.rotation):
            box.activated.connect(lambda _, box=box: self._chosen(box))
        self.slider = QSlider(Qt.Orientation.Horizontal)
        ignore_unfocused_wheel(self.slider)
        self.slider.setRange(0, _MOST_PERCENT)
        self.slider.setPageStep(_STEP)
        self.slider.setAccessibleName("Sparsity, as a slider")
        self.sparsity = whole_number(0, _MOST_PERCENT, 0, " %", step=_STEP, name="Sparsity of every cell")
        self.slider.valueChanged.connect(self.sparsity.setValue)  # no loop: setting an equal value emits nothing
        self.sparsity.valueChanged.connect(self.slider.setValue)
        self.sparsity.valueChanged.connect(self.changed)
        self.sparsity.setValue(_FIRST_PERCENT)
        self.by_plan = QCheckBox()
        self.by_plan.toggled.connect(self._on_by_plan)
        holder = QWidget()
        hbox(holder, (self.slider, 1), self.sparsity)
        self.column.addWidget(text_label("Sparse side", "section"))
        self.column.addWidget(text_label(_LIVE, "muted", wrap=True))
        self.column.addLayout(labelled("Method", self.method))
        self.column.addLayout(labelled("Sparsity of every cell", holder))
        self.column.addWidget(self.by_plan)
        self.column.addLayout(labelled("Rotation", self.rotation))

    def _add_sampling(self) -> None:
        default = SamplingSpec()
        self.new_tokens = whole_number(1, MOST_TOKENS, 64, " tokens")
        self.temperature = decimal(0.0, 10.0, default.temperature, lowest="0: the most likely token")
        self.top_p = decimal(0.01, 1.0, default.top_p)
        self.seed = whole_number(0, 2**31 - 1, default.seed)
        self.seed.setGroupSeparatorShown(False)
        self.sampling = fold = CollapsibleSection("Length and sampling")
        fold.column.addWidget(text_label(_LATER, "muted", wrap=True))
        for name, box, hint, term in (
            ("Max new tokens", self.new_tokens, "", ""),
            (
                "Temperature",
                self.temperature,
                "Above 0 tokens are sampled, with the same noise on both sides.",
                "Temperature",
            ),
            ("Top p", self.top_p, "Samples from the smallest set of tokens with this probability.", "Top p"),
            ("Seed", self.seed, "", ""),
        ):
            fold.column.addLayout(labelled(name, box, hint=hint, term=term))
            box.valueChanged.connect(self.changed)
        self.column.addWidget(fold)

    def job(self, model: ModelSource, configurations: tuple[CompletionSpec, ...]) -> GenerateJob:
        """Return the job that completes the prompt under these configurations."""
        return GenerateJob(
            model=model,
            prompt=self.prompt.toPlainText(),
            chat=self.chat.isEnabled() and self.chat.isChecked(),
            new_tokens=self.new_tokens.value(),
            sampling=SamplingSpec(
                temperature=self.temperature.value(), top_p=self.top_p.value(), seed=self.seed.value()
            ),
            configurations=configurations,
            store=self.store.isChecked(),
        )

    def sparse_spec(self, plan: SparsityPlan | None) -> CompletionSpec:
        """Return the configuration of the sparse side, by this plan if it is chosen."""
        method: MethodSpec = self.method.currentData()
        by_plan = plan is not None and self.by_plan.isEnabled() and self.by_plan.isChecked()
        return CompletionSpec(
            rotation=self.rotation.currentData(),
            method=method,
            plan=plan if by_plan and plan else UniformSparsity(sparsity=fraction(self.sparsity.value())),
            calibration=CalibrationSpec() if method.needs_calibration else None,
        )

    def show_point(self, point: CompletionPoint) -> None:
        """Show prompt and sampling of a stored completion."""
        self.prompt.setPlainText(point.prompt)
        self.chat.setChecked(point.chat)
        self.new_tokens.setValue(point.new_tokens)
        self.temperature.setValue(point.sampling.temperature)
        self.top_p.setValue(point.sampling.top_p)
        self.seed.setValue(point.sampling.seed)

    def show_sparsity(self, sparsity: float, *, by_plan: bool) -> None:
        """Show a fraction, and whether a plan takes its place."""
        self.sparsity.setValue(round(100 * sparsity))
        self.by_plan.setChecked(by_plan)

    def inputs(self) -> dict[str, QWidget]:
        """Return the inputs by the names under which their values are remembered."""
        return {
            "prompt": self.prompt,
            "chat": self.chat,
            "store": self.store,
            "sparsity": self.sparsity,
            "by_plan": self.by_plan,
            "new_tokens": self.new_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "sampling": self.sampling.heading,
        }

    def show_choices(
        self,
        workspace: Workspace,
        plan: SparsityPlan | None,
        stored: CompletionSpec | None,
        chosen: tuple[RotationSpec, MethodSpec],
    ) -> None:
        """Offer all methods and rotations of a model, with those of other pages and of a `stored` completion."""
        summary, method = workspace.summary, workspace.method
        methods = {spec: spec.label for spec in method_specs() if spec.name != DENSE.name}
        selection = "" if method.selection == "topk" else f", {method.selection}"
        methods.setdefault(method, f"As on the Sparsity page: {method.label}{selection}")
        methods.pop(DENSE, None)  # perhaps the Sparsity page's; dense is the other side
        rotations = {spec: name for name, spec in ROTATION_PRESETS.items() if is_exact(spec, summary)}
        rotations.setdefault(workspace.rotation, f"As on the Rotation page: {workspace.rotation.label}")
        if stored is not None:
            methods.setdefault(stored.method, stored.method.label)
            rotations.setdefault(stored.rotation, stored.rotation.label)
        self.method.fill([(text, spec) for spec, text in methods.items()], chosen[1])
        self.rotation.fill([(text, spec) for spec, text in rotations.items()], chosen[0])
        explain_disabled(
            self.chat,
            enabled=summary is not None and summary.chat_template,
            reason="This model's tokenizer has no chat template",
            explanation="As the user's message of a conversation",
        )
        self.show_plan(plan)

    def show_plan(self, plan: SparsityPlan | None) -> None:
        """Describe the plan, by which the sparse side can be gated; None if there is none."""
        described = "" if plan is None else f": {percent(plan.budget)}, {plan.provenance}"
        self.by_plan.setText(f"By the plan{described}")
        self.by_plan.setAccessibleName("Sparsity by the plan of the Sparsity page")
        explain_disabled(
            self.by_plan,
            enabled=plan is not None,
            reason="There is no plan; open a model",
            explanation="Each cell's own target, as edited on the Sparsity page",
        )
        self._show_uniform()

    def show_prompts(self, prompts: list[str]) -> None:
        self._recent = prompts

    def step_sparsity(self, steps: int) -> None:
        if self.sparsity.isEnabled():
            self.sparsity.setValue(self.sparsity.value() + steps * _STEP)

    def _chosen(self, box: ComboBox) -> None:
        box.setToolTip(plain_tip(box.currentText()))
        self.changed.emit()

    def _on_by_plan(self) -> None:
        self._show_uniform()
        self.changed.emit()

    def _show_uniform(self) -> None:
        uniform = not (self.by_plan.isEnabled() and self.by_plan.isChecked())
        for control in (self.slider, self.sparsity):
            explain_disabled(control, enabled=uniform, reason="The plan of the Sparsity page sets the sparsity")

    def _fill_examples(self) -> None:
        menu = self.examples.menu()
        menu.clear()
        menu.addSection("Examples")
        for name, prompt in PROMPTS.items():
            menu.addAction(name).triggered.connect(partial(self._use_prompt, prompt))
        if self._recent:
            menu.addSection("Recent")
        for prompt in self._recent:
            menu.addAction(shortened(prompt).replace("&", "&&")).triggered.connect(partial(self._use_prompt, prompt))

    def _use_prompt(self, prompt: str, _checked: bool = False) -> None:
        with QSignalBlocker(self.prompt):
            self.prompt.setPlainText(prompt)
        self.prompt.setFocus(Qt.FocusReason.OtherFocusReason)
        self.changed.emit()


def shortened(prompt: str, longest: int = SHORT) -> str:
    words = " ".join(prompt.split())
    return words if len(words) <= longest else f"{words[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"
