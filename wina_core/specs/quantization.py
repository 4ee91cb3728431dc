"""Weight quantization of the gated matrices and of the head, plans of bits, pairs of both plans, and joint allocations.

Plans of bits are the siblings of sparsity plans; files and saved plans hold a pair of both.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from wina_core.errors import WinaError, explain
from wina_core.files.user_file import read_file
from wina_core.specs.base import PROVENANCE, Spec, SpecPart
from wina_core.specs.evaluations import TextSpec
from wina_core.specs.plans import Cell, PlanLayout, SparsityPlan, with_values
from wina_core.specs.plugins import Plugins, callable_of

Bits = Literal["int8", "int4"]
"""Quantizations of other libraries: INT8 by torchao, INT4 by HQQ."""
NamedQuantization = Literal["none", Bits]
WeightBits = Literal[16, 8, 6, 4, 3, 2]
"""Bits of a weight's code; 16 is a float without scales."""
WEIGHT_BITS: tuple[WeightBits, ...] = get_args(WeightBits)
Quantizer = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
BUILT_IN_QUANTIZERS = ("rtn", "hqq", "gptq", "planes")
QUANTIZER_PLUGINS: Plugins[Callable[..., Any]] = Plugins("quantizer", BUILT_IN_QUANTIZERS, callable_of)
GroupSize = Literal[16, 32, 64, 128]
PLANES_BITS = (12, 10, 8, 6, 4, 2)
"""Bits of a matrix whose inputs have equally many planes."""
HeadBits = Literal[16, 8, 6, 4]
MeanBits = Annotated[float, Field(ge=2, le=16, allow_inf_nan=False)]


class BitsPlan(SpecPart):
    """Bits per decoder layer and projection: the bits of that matrix's codes, or their mean by energy."""

    layout: PlanLayout
    bits: tuple[tuple[MeanBits, ...], ...]
    """[layer][projection]."""
    provenance: Annotated[str, PROVENANCE] = "uniform"
    """Provenance: "uniform", "edited", or an allocator's name. Equal tables are the same plan to the store."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.layout.check_table(self.bits)
        return self

    @classmethod
    def uniform(cls, layout: PlanLayout, bits: float) -> "BitsPlan":
        return cls(layout=layout, bits=layout.uniform(bits), provenance="uniform")

    @property
    def budget(self) -> float:
        return self.layout.mean(self.bits)

    def with_cells(self, values: dict[Cell, float], provenance: str = "edited") -> "BitsPlan":
        # model_copy would not validate the new bits.
        return BitsPlan(layout=self.layout, bits=with_values(self.bits, values), provenance=provenance)

    def for_layout(self, layout: PlanLayout) -> "BitsPlan":
        self.layout.check_model(layout, "plan of bits")
        return self


def _bits_kind(value: object) -> str:
    return "Number" if isinstance(value, int | float | str) else "Plan"


BitsOfCells = Annotated[
    Annotated[MeanBits, Tag("Number")] | Annotated[BitsPlan, Tag("Plan")], Discriminator(_bits_kind)
]


class QuantizationSpec(Spec):
    """Weight quantization after rotation: `bits` for each code, a 16-bit scale and zero for each `group` of inputs.

    Quantizers: `rtn`, round to nearest with optimized ranges; `hqq`, half-quadratic quantization; `gptq`, error
    compensation with second moments of the inputs; other names are those of packages. `by_energy` orders a matrix's
    inputs by energy, E[x_i^2] ||W[:, i]||^2 with outputs weighted by their sensitivity, and cuts them into at most four
    runs of equal bits. A number of `bits` is then the model's mean, shared out among all matrices for the least error;
    a plan gives each matrix its own. Either way no more is held, with the order, than with equal bits for all inputs.
    `planes`: codes in planes of 2 bits, the highest first, and one scale for each input; gates read the first planes of
    inputs of low scores alone (`wina_kernels.planes`). By energy, inputs have 1 to 6 planes,
    and `bits` is all that is held, scales included; `group` is not read.
    """

    quantizer: Quantizer
    bits: BitsOfCells = 4.0
    by_energy: bool = False
    group: GroupSize = 64
    head_bits: HeadBits = 16
    """Bits of the output head, rounded to nearest; the embedding keeps the model's dtype."""
    text: TextSpec = TextSpec()
    """Text for the second moments, which `gptq` and `by_energy` read."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        planes = self.quantizer == "planes"
        if self.by_energy and not planes:
            return self
        cells = [self.bits] if isinstance(self.bits, float) else [bits for row in self.bits.bits for bits in row]
        for bits in cells:
            if self.by_energy:
                if not 2 <= bits <= PLANES_BITS[0] and bits != 16:
                    raise ValueError(f"planes by energy have 2 to {PLANES_BITS[0]} bits, not {bits:g}; choose fewer")
            elif bits not in (widths := (16, *PLANES_BITS) if planes else WEIGHT_BITS):
                *names, last = (f"{width}" for width in sorted(widths))
                raise ValueError(
                    f"a whole matrix has {', '.join(names)} or {last} bits{' in planes' if planes else ''}, not "
                    f"{bits:g}; choose one of them, or bits by energy for a mean in between"
                )
        return self

    @property
    def reads_text(self) -> bool:
        return self.quantizer == "gptq" or self.by_energy

    @property
    def mean_bits(self) -> float:
        return self.bits if isinstance(self.bits, float) else self.bits.budget

    def plan(self, layout: PlanLayout) -> BitsPlan:
        """Return the bits of each cell; WinaError for another model's plan."""
        if isinstance(self.bits, BitsPlan):
            return self.bits.for_layout(layout)
        return BitsPlan.uniform(layout, self.bits)

    @property
    def label(self) -> str:
        """Return a short name, for example "4.2 bits gptq by energy, head 8"."""
        name = f"{self.mean_bits:.4g} bits {self.quantizer}" + (" by energy" if self.by_energy else "")
        details = [
            name,
            f"plan {self.content_hash()[:6]}" if isinstance(self.bits, BitsPlan) else "",
            f"group {self.group}" if self.group != 64 and self.quantizer != "planes" else "",
            f"head {self.head_bits}" if self.head_bits != 16 else "",
            f"on {self.text.label}" if self.reads_text and self.text != TextSpec() else "",
        ]
        return ", ".join(filter(None, details))


def quantizer_names() -> tuple[str, ...]:
    return (*BUILT_IN_QUANTIZERS, *QUANTIZER_PLUGINS.names)


def _kind(value: object) -> str:
    return "Name" if isinstance(value, str) else "Spec"


Quantization = Annotated[
    Annotated[NamedQuantization, Tag("Name")] | Annotated[QuantizationSpec, Tag("Spec")], Discriminator(_kind)
]


def quantization_label(quantization: Quantization) -> str:
    return quantization if isinstance(quantization, str) else quantization.label


def printed_quantization(label: str) -> str:
    """Return a `quantization_label` as tables print it: "INT8", or a spec's label; empty for "none"."""
    return "" if label == "none" else label.upper() if label in get_args(Bits) else label


def load_bits_plan(path: Path) -> BitsPlan:
    """Return the plan of bits in a JSON file; WinaError where it cannot be read, is too large, or holds no plan."""
    return _load(path, BitsPlan.model_validate_json, "plan of bits")


Loaded = TypeVar("Loaded")


def _load(path: Path, parse: Callable[[bytes], Loaded], noun: str) -> Loaded:
    try:
        return parse(read_file(path, "plan"))
    except ValidationError as error:
        reason = explain(error).rstrip(".")
        raise WinaError(
            f"The file {path} is not a {noun} ({reason}); choose one saved from the Sparsity page."
        ) from error


class PlanPair(SpecPart):
    """A sparsity plan, and the bits of the weights that it was made with."""

    kind: Literal["pair"] = "pair"
    version: Literal[1] = 1
    """Version of the file's format."""
    plan: SparsityPlan
    quantization: Quantization | None = None
    """Quantization of the model; None leaves the model's own, as a file with targets alone does."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        bits = self.quantization.bits if isinstance(self.quantization, QuantizationSpec) else None
        if isinstance(bits, BitsPlan) and bits.layout != self.plan.layout:
            raise ValueError("its target sparsities and its bits were made for different models")
        return self

    def text(self, indent: int | None = 1) -> str:
        # Without a quantization, the file is that of the time before pairs.
        content = self.plan if self.quantization is None else self
        return content.model_dump_json(indent=indent) + "\n"

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Return the pair in a file's text, or a sparsity plan alone. Raises ValidationError."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):  # reported by the validation, with its place
            content = None
        if isinstance(content, dict) and content.get("kind") == "pair":
            return cls.model_validate_json(text)
        return cls(plan=SparsityPlan.model_validate_json(text))


def load_pair(path: Path) -> PlanPair:
    """Return the plan in a JSON file with its bits; WinaError where it cannot be read, is too large, or is no plan."""
    return _load(path, PlanPair.parse, "sparsity plan")


_WIDTHS: dict[bool, tuple[float, ...]] = {
    False: (2.0, 3.0, 4.0, 6.0, 8.0),
    True: (2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 8.0),
}
"""Proposed widths by whether bits go by energy."""


class JointSpec(Spec):
    """The bits and the target sparsity of each cell that change the model's output least within budgets.

    For each cell (decoder layer x projection), width and sparsity, the KL divergence that they cause alone is measured;
    the least sum within the budgets is found as a multiple-choice knapsack problem. Weights in planes need no such
    measurements: every plane of every input is read where its gain, by the outputs' sensitivities, is worth its bits.
    """

    bits_read: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Budget: bits read per token for each gated weight, scales and all, as measured on `text`; None for no bound."""
    bits_held: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Budget: bits held for each gated weight, likewise; planes not by energy hold a scale an input more."""
    quantization: QuantizationSpec = QuantizationSpec(quantizer="planes", bits=8, by_energy=True)
    """Quantizer and its settings; `bits` is what planes hold without `bits_held`, and otherwise not read."""
    widths: tuple[MeanBits, ...] = ()
    """Bits to choose from; empty for the usual ones of the quantizer. Not read for planes."""
    step: float = Field(default=0.025, gt=0.0, le=0.5)
    """Distance of the sparsities to choose from, likewise."""
    refined: bool = False
    """Planes: measure the divergence of every mask alone and correct what its inputs are worth."""
    text: TextSpec = TextSpec(tokens=8_192)
    """The text to measure divergences on."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.bits_read is None and self.bits_held is None:
            raise ValueError("a joint allocation needs a budget: give bits_read, bits_held or both")
        if self.in_planes:
            if self.bits_read is None:
                raise ValueError("weights in planes need a budget of bits read; give bits_read")
            _ = self.in_planes_held  # bits that planes cannot have are refused as in a model's own
            return self
        for bits in self.choices:  # a width that the quantizer lacks is refused as in a model's own
            self.quantized(bits)
        return self

    @property
    def in_planes(self) -> bool:
        return self.quantization.quantizer == "planes"

    @property
    def choices(self) -> tuple[float, ...]:
        spec = self.quantization
        usual = _WIDTHS[spec.by_energy]
        return tuple(sorted(set(self.widths))) if self.widths else usual

    def quantized(self, bits: float) -> QuantizationSpec:
        return QuantizationSpec.model_validate({**dict(self.quantization), "bits": bits})

    @property
    def in_planes_held(self) -> QuantizationSpec:
        """Return the quantization whose weights in planes are within the budget held, or have the spec's own bits."""
        return self.quantization if self.bits_held is None else self.quantized(min(self.bits_held, PLANES_BITS[0]))

    @property
    def measured(self) -> "JointSpec":
        """Return the spec with all that the measurements depend on, and no more."""
        widths, step = self.choices, JointSpec.model_fields["step"].default
        quantization = self.quantization if self.in_planes else self.quantized(widths[0])
        # No measurement depends on a budget, but a spec needs one.
        fixed = {"bits_read": 16.0, "bits_held": None, "step": step, "widths": widths, "quantization": quantization}
        return self.model_copy(update=fixed)

    @property
    def label(self) -> str:
        """Return a short name, for example "joint, 4.5 bits read, 6 held"."""
        budgets = (("read", self.bits_read), ("held", self.bits_held))
        named = [f"{bits:g} bits {name}" for name, bits in budgets if bits is not None]
        return ", ".join(("joint", *named))


def check_made(quantization: Quantization, *, load: bool = False) -> None:
    """Raise WinaError for a quantizer that is not installed; with `load`, also for a package's that cannot be used."""
    if isinstance(quantization, QuantizationSpec):
        QUANTIZER_PLUGINS.check(quantization.quantizer, BUILT_IN_QUANTIZERS, load=load)
