"""Forms of the Latency page: single products, and decoding of the open model."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from pydantic import ValidationError
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QLineEdit, QListWidget, QListWidgetItem, QWidget

from wina_app.shared.evaluation_choice import parse_sparsities
from wina_app.style.number_format import plural
from wina_app.style.theme import GRID, HALF, notifier
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import SidePanel, in_two_columns, labelled, method_swatch, text_label
from wina_app.widgets.fields import FieldProblem, choices, whole_number
from wina_app.widgets.plain_text import plain_tip
from wina_core.errors import WinaError, explain
from wina_core.specs import DENSE, CalibrationSpec, MethodSpec, ModelSource, RotationSpec
from wina_core.specs.latency import (
    BUDGET_SECONDS,
    LEAST_REPETITIONS,
    MOST_SEQUENCES,
    PRESETS,
    DecodeSpec,
    LatencySpec,
    Shape,
    parse_shape,
)

_WIDTH = GRID * 38
AGAIN = "Measure stored points again"
_AGAIN_TIP = "Otherwise points stored for this machine and the same versions are skipped"
KINDS = {
    "products": ("Single products", "Sparse products of given shapes on weights outside all caches"),
    "decoding": ("Decoding by the open model", "Greedy decoding by the gated model against the dense one"),
}

DTYPES: dict[str, str] = {
    "bfloat16": "16 bits, with the range of float32",
    "float16": "16 bits",
    "float32": "32 bits",
}
METHODS: dict[str, str] = {
    "dense": "PyTorch's dense product; always measured as the reference",
    "wina": "Scores inputs by magnitude times column norm",
    "teal": "Scores inputs by magnitude",
    "rsparse": "TEAL's mask, and a low-rank part for dropped inputs",
}
SELECTIONS: dict[str, str] = {
    "threshold": "Keeps scores above a threshold",
    "topk": "Keeps exactly k inputs of each row; finding them costs time",
}
DENSE_PRODUCTS: dict[str, str] = {
    "auto": "Our kernel of the device, with nothing dropped",
    "torch-int8": "PyTorch's product with weights in 8 bits",
    "int8": "Our kernel with weights in 8 bits, with nothing dropped",
    "int4": "Our kernel with weights in 4 bits, with nothing dropped",
}
BACKENDS: dict[str, str] = {
    "auto": "The first that works on the device, the fastest first",
    "dispatched": "What decoding uses: for each product the backend, or the dense product, that is likely the fastest",
    "native": "C++ for this processor's instructions; built by the set-up where a compiler is",
    "triton": "Compiled for the GPU",
    "reference": "PyTorch alone; every other one is checked against it",
}
_DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]+)?")
_LARGEST_BATCH = 2**14
_Value = TypeVar("_Value")


class ChoiceError(Exception):
    """Invalid choice; `problems` has one sentence for each wrong field."""

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__(" ".join(problems.values()))
        self.problems = problems


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """Parse "4096x11008, 5120x17920" to two shapes. Raise WinaError for a wrong entry."""
    return tuple(parse_shape(word) for word in filter(None, map(str.strip, re.split(r"[,;\n]", text))))


def parse_batches(text: str) -> tuple[int, ...]:
    """Parse "1, 4 16" to (1, 4, 16), sorted and unique. Raise WinaError for a wrong entry."""
    batches = set()
    for word in filter(None, re.split(r"[\s,;]+", text)):
        try:
            batch = int(word)
        except ValueError:
            raise WinaError(f'"{word}" is not a whole number; list batches, for example 1, 4, 16.') from None
        if not 1 <= batch <= _LARGEST_BATCH:
            raise WinaError(f"A batch of {batch:,} is not possible; each must be 1 to {_LARGEST_BATCH:,}.")
        batches.add(batch)
    return tuple(sorted(batches))


def _read(problems: dict[str, str], field: str, parse: Callable[[str], _Value], text: str) -> _Value | None:
    """Return a field's value; None if it is invalid, which becomes one of the problems."""
    try:
        return parse(text)
    except WinaError as error:
        problems[field] = str(error)
        return None


class Field(QWidget):
    """Control with its label, and its problem, which is in the control's tooltip, too."""

    def __init__(self, text: str, control: QWidget, hint: str = "", term: str = "") -> None:
        super().__init__()
        self._control = control
        self.trouble = FieldProblem(self, self.parentWidget)  # a function, as the field has no parent yet
        vbox(self, labelled(text, control, hint=hint, term=term), spacing=HALF)
        self._hint = hint

    def show_problem(self, text: str) -> None:
        """Show the problem; empty for none."""
        self.trouble.show_text(text)
        self._control.setAccessibleDescription(text or self._hint)
        self._control.setToolTip(plain_tip(text))
        self._control.setProperty("state", "invalid" if text else "")
        self._control.style().polish(self._control)  # else the style sheet does not see the property


class _Ticks(QWidget):
    """Check boxes of one field's values, in two columns."""

    changed = Signal()

    def __init__(self, name: str, values: Mapping[str, str], ticked: Collection[str]) -> None:
        super().__init__()
        self.boxes: dict[str, QCheckBox] = {}
        for value, explanation in values.items():
            box = QCheckBox(value)
            box.setAccessibleName(f"{name} {value}")
            box.setToolTip(explanation)
            box.setChecked(value in ticked)
            box.toggled.connect(self.changed)
            self.boxes[value] = box
        grid = in_two_columns(self.boxes.values())
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setColumnStretch(0, 1)
        self.setLayout(grid)

    def values(self) -> tuple[str, ...]:
        return tuple(value for value, box in self.boxes.items() if box.isChecked())


class ProductForm(QWidget):
    """Form of a sweep over single products."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, Field] = {}
        self.inputs: dict[str, QWidget] = {}
        """Input widgets without the presets, by the names under which the next start restores them."""
        self._column = vbox(self)
        self.presets = self._build_presets()
        self._column.addWidget(text_label("Shapes", "section"))
        self._column.addWidget(self.presets)
        default = LatencySpec(shapes=(Shape(outputs=1, inputs=1),))
        self.shapes = self._add_line("shapes", "Own shapes, outputs x inputs", "")
        self.shapes.setPlaceholderText("4096x11008, 5120x17920")
        self.batches = self._add_line("batches", "Batches, rows of x", ", ".join(map(str, default.batches)))
        self._column.addSpacing(GRID)
        self._column.addWidget(text_label("Products", "section"))
        self.methods = self._add_ticks("methods", "Method", "Methods", METHODS, ("dense", "wina"))
        dense = "Dense products besides PyTorch's"
        self.dense_products = self._add_ticks(
            "dense_products", "Dense product", dense, DENSE_PRODUCTS, DENSE_PRODUCTS, "dense"
        )
        self.dense_products.boxes["auto"].setText("our kernel")
        percentages = ", ".join(f"{100 * sparsity:g}" for sparsity in default.sparsities)
        self.sparsities = self._add_line("sparsities", "Sparsities: dropped inputs, %", percentages)
        self.selections = self._add_ticks("selections", "Selection", "Selections", SELECTIONS, ("threshold",))
        self.dtypes = self._add_ticks("dtypes", "Dtype", "Dtypes", DTYPES, ("bfloat16",))
        self.backends = self._add_ticks("backends", "Backend", "Backends", BACKENDS, ("auto",))
        self._column.addSpacing(GRID)
        self._column.addWidget(text_label("Measurement", "section"))
        self.device = self._add_line("device", "Device: auto, cpu, cuda or cuda:1", default.device)
        self.repetitions = whole_number(1, 10_000, default.repetitions, " turns")
        self.repetitions.valueChanged.connect(self.changed)
        self._add("repetitions", "Repetitions", self.repetitions, "Warm-up")
        self.again = _again_box()
        self.again.toggled.connect(self.changed)
        self._column.addWidget(self.again)
        self.inputs |= {"repetitions": self.repetitions, "again": self.again}
        notifier().changed.connect(self._restyle)
        self._restyle()

    def _build_presets(self) -> QListWidget:
        presets = QListWidget()
        presets.setAccessibleName("Presets of shapes")
        for name, shapes in PRESETS.items():
            amount = plural(len(shapes), "shapes", "shape")
            item = QListWidgetItem(f"{name} ({amount})")
            item.setData(Qt.ItemDataRole.UserRole, name)
            item.setToolTip("\n".join(f"{shape.label}: {shape.op}" for shape in shapes))
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
            item.setCheckState(Qt.CheckState.Checked if name == "paper" else Qt.CheckState.Unchecked)
            presets.addItem(item)
        presets.setSpacing(2)
        presets.setFixedHeight(GRID * 16)
        presets.itemChanged.connect(lambda _: self.changed.emit())
        return presets

    def _add(self, field: str, text: str, control: QWidget, term: str = "") -> None:
        self.fields[field] = Field(text, control, term=term)
        self._column.addWidget(self.fields[field])

    def _add_line(self, field: str, text: str, value: str) -> QLineEdit:
        line = QLineEdit(value)
        line.textChanged.connect(self.changed)
        self._add(field, text, line)
        self.inputs[field] = line
        return line

    def _add_ticks(
        self, field: str, name: str, text: str, values: Mapping[str, str], ticked: Collection[str], key: str = ""
    ) -> _Ticks:
        ticks = _Ticks(name, values, ticked)
        ticks.changed.connect(self.changed)
        self._add(field, text, ticks)
        self.inputs |= {f"{key or name.lower()} {value}": box for value, box in ticks.boxes.items()}
        return ticks

    def ticked_presets(self) -> tuple[str, ...]:
        items = [self.presets.item(row) for row in range(self.presets.count())]
        ticked = (item for item in items if item.checkState() == Qt.CheckState.Checked)
        return tuple(item.data(Qt.ItemDataRole.UserRole) for item in ticked)

    def tick_presets(self, names: Collection[str]) -> None:
        """Tick the presets with these names, and no others."""
        for row in range(self.presets.count()):
            item = self.presets.item(row)
            ticked = item.data(Qt.ItemDataRole.UserRole) in names
            item.setCheckState(Qt.CheckState.Checked if ticked else Qt.CheckState.Unchecked)

    def make_spec(self) -> LatencySpec:
        """Return the chosen sweep. Raise ChoiceError.

        Options of gated products are read only if one is ticked.
        """
        problems: dict[str, str] = {}
        typed_shapes = _read(problems, "shapes", parse_shapes, self.shapes.text())
        presets = tuple(shape for name in self.ticked_presets() for shape in PRESETS[name])
        batches = _read(problems, "batches", parse_batches, self.batches.text())
        sparsities = _read(problems, "sparsities", parse_sparsities, self.sparsities.text())
        methods, device = self.methods.values(), self.device.text().strip()
        gates = any(method != DENSE.name for method in methods)
        no_device = f'There is no device "{device}"; write auto, cpu, cuda or, for the second GPU, cuda:1.'
        no_shape = typed_shapes is not None and not typed_shapes + presets
        checks = (
            ("shapes", no_shape, "Tick a preset or give a shape, for example 4096x11008."),
            ("batches", batches == (), "List at least one batch, for example 1."),
            ("dtypes", not self.dtypes.values(), "Tick at least one dtype."),
            ("methods", not methods, "Tick at least one method."),
            ("sparsities", gates and sparsities == (), "List at least one sparsity in percent, for example 50."),
            ("selections", gates and not self.selections.values(), "Tick at least one selection."),
            ("backends", gates and not self.backends.values(), "Tick at least one backend; auto finds the fastest."),
            ("device", not _DEVICE.fullmatch(device), no_device),
        )
        problems |= {field: sentence for field, wrong, sentence in checks if wrong}
        if problems or typed_shapes is None:
            raise ChoiceError(problems)
        gating = {
            "sparsities": sparsities,
            "selections": self.selections.values(),
            "backends": self.backends.values(),
        }
        return LatencySpec.model_validate(
            {
                "shapes": presets + typed_shapes,
                "batches": batches,
                "dtypes": self.dtypes.values(),
                "methods": methods,
                "device": device,
                "repetitions": self.repetitions.value(),
                "dense_products": self.dense_products.values(),
                **(gating if gates else {}),
            }
        )

    def _restyle(self) -> None:
        for name, box in self.methods.boxes.items():
            box.setIcon(method_swatch(name))


class DecodeForm(QWidget):
    """Form of a decoding sweep; other pages choose model, rotation and method."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.model = text_label("", wrap=True)
        defaults = {name: field.default for name, field in DecodeSpec.model_fields.items()}
        self.sparsities, self.batches = QLineEdit("0, 50"), QLineEdit("1")
        for line in (self.sparsities, self.batches):
            line.textChanged.connect(self.changed)
        self.prompt_tokens = whole_number(64, 2**17, defaults["prompt_tokens"], " tokens")
        self.new_tokens = whole_number(2, 2**17, defaults["new_tokens"], " tokens")
        self.repetitions = whole_number(1, 10_000, defaults["repetitions"], " turns")
        self.budget = whole_number(0, 86_400, round(BUDGET_SECONDS), " s", lowest="no limit")
        self.again = _again_box()
        self.again.toggled.connect(self.changed)
        repetitions = (
            f"Of the gated and the dense model. Repetitions beyond it are left out, but for {LEAST_REPETITIONS}, which "
            "have fewer new tokens where even they take longer."
        )
        self.fields = {
            "model": Field(
                "Model, rotation and method",
                self.model,
                "As chosen on the Model, Rotation and Sparsity pages; every sparsity is uniform over the model.",
            ),
            "sparsities": Field("Sparsities: dropped inputs, %", self.sparsities),
            "batches": Field(
                "Batches: sequences at once", self.batches, "1, 2, 4, 8 shows up to which batch gating pays."
            ),
            "prompt_tokens": Field("Prompt, timed apart", self.prompt_tokens, term="Prefill"),
            "new_tokens": Field("New tokens, timed", self.new_tokens),
            "repetitions": Field("Repetitions, at most", self.repetitions),
            "budget": Field("Time per point", self.budget, repetitions),
        }
        self.inputs: dict[str, QWidget] = {
            "decode sparsities": self.sparsities,
            "decode batches": self.batches,
            "prompt tokens": self.prompt_tokens,
            "new tokens": self.new_tokens,
            "decode repetitions": self.repetitions,
            "decode budget": self.budget,
            "decode again": self.again,
        }
        column = vbox(self)
        for field in self.fields.values():
            column.addWidget(field)
        column.addWidget(self.again)
        for box in (self.prompt_tokens, self.new_tokens, self.repetitions, self.budget):
            box.valueChanged.connect(self.changed)

    def make_spec(self, source: ModelSource | None, rotation: RotationSpec, method: MethodSpec) -> DecodeSpec:
        """Return the chosen sweep. Raise ChoiceError."""
        problems: dict[str, str] = {}
        sparsities = _read(problems, "sparsities", parse_sparsities, self.sparsities.text())
        if sparsities == ():
            problems["sparsities"] = "List at least one sparsity in percent, for example 50."
        batches = _read(problems, "batches", parse_batches, self.batches.text())
        if batches == ():
            problems["batches"] = "List at least one batch, for example 1."
        if batches and max(batches) > MOST_SEQUENCES:
            problems["batches"] = f"At most {MOST_SEQUENCES} sequences are decoded at once."
        if source is None:
            problems["model"] = "Open a model first."
        if problems:
            raise ChoiceError(problems)
        fields = {
            "model": source,
            "rotation": rotation,
            "method": method,
            "calibration": CalibrationSpec() if method.needs_calibration else None,
            "sparsities": sparsities,
            "batches": batches,
            "prompt_tokens": self.prompt_tokens.value(),
            "new_tokens": self.new_tokens.value(),
            "repetitions": self.repetitions.value(),
            "budget_seconds": self.budget.value() or None,
        }
        try:
            return DecodeSpec.model_validate(fields)
        except ValidationError as error:
            raise ChoiceError({"model": explain(error)}) from error


class LatencyForm(SidePanel):
    """Both forms, one of them shown."""

    changed = Signal()
    kind_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__(_WIDTH)
        self.kind = choices((text, kind, explanation) for kind, (text, explanation) in KINDS.items())
        self.kind.activated.connect(lambda: self.kind_chosen.emit(self.kind.currentData()))
        self.products, self.decoding = ProductForm(), DecodeForm()
        self.column.addLayout(labelled("Timed operation", self.kind))
        self.column.addSpacing(GRID)
        for form in (self.products, self.decoding):
            form.changed.connect(self.changed)
            self.column.addWidget(form)
        self.column.addStretch(1)
        self.show_kind("products")

    @property
    def shown(self) -> ProductForm | DecodeForm:
        return self.products if self.kind.currentData() == "products" else self.decoding

    def show_kind(self, kind: str) -> None:
        self.kind.setCurrentIndex(self.kind.findData(kind))
        self.products.setVisible(kind == "products")
        self.decoding.setVisible(kind == "decoding")

    def show_problems(self, problems: Mapping[str, str]) -> None:
        for name, field in self.shown.fields.items():
            field.show_problem(problems.get(name, ""))


def _again_box() -> QCheckBox:
    box = QCheckBox(AGAIN)
    box.setAccessibleName(AGAIN)
    box.setToolTip(_AGAIN_TIP)
    return box
