"""Weight quantization of the gated matrices and of the head, and plans of bits, the siblings of sparsity plans."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from wina_core.errors import WinaError, explain
from wina_core.files.user_file import read_file
from wina_core.specs.base import PROVENANCE, Part, Spec
from wina_core.specs.plans import Cell, PlanLayout, replaced
from wina_core.specs.plugins import Plugins, callable_of
from wina_core.specs.texts import TextSpec

Bits = Literal["int8", "int4"]
"""Quantizations of other libraries: INT8 by torchao, INT4 by HQQ."""
NamedQuantization = Literal["none", Bits]
WeightBits = Literal[16, 8, 6, 4, 3, 2]
"""Bits of a weight's code; 16 is a float without scales."""
WEIGHT_BITS: tuple[WeightBits, ...] = get_args(WeightBits)
Quantizer = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
BUILT_IN_QUANTIZERS = ("rtn", "hqq", "gptq", "planes")
NESTED = "nested"
"""A quantizer in databases of a version that was not released; its weights are no longer made."""
QUANTIZER_PLUGINS: Plugins[Callable[..., Any]] = Plugins("quantizer", (*BUILT_IN_QUANTIZERS, NESTED), callable_of)
GroupSize = Literal[16, 32, 64, 128]
PLANES_BITS = (12, 10, 8, 6, 4, 2)
"""Bits of a matrix whose inputs have equally many planes."""
HeadBits = Literal[16, 8, 6, 4]
MeanBits = Annotated[float, Field(ge=2, le=16, allow_inf_nan=False)]


class BitsPlan(Part):
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
        """Return a plan with the same bits in every cell."""
        return cls(layout=layout, bits=layout.uniform(bits), provenance="uniform")

    @property
    def budget(self) -> float:
        """Return the mean bits weighted by each matrix's number of weights."""
        return self.layout.mean(self.bits)

    def with_cells(self, values: dict[Cell, float], provenance: str = "edited") -> "BitsPlan":
        """Return a copy with new bits in the given cells, validated like any others."""
        return BitsPlan(layout=self.layout, bits=replaced(self.bits, values), provenance=provenance)

    def for_layout(self, layout: PlanLayout) -> "BitsPlan":
        """Return this plan; WinaError where it was made for another model."""
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
                *names, last = (f"{each}" for each in sorted(widths))
                raise ValueError(
                    f"a whole matrix has {', '.join(names)} or {last} bits{' in planes' if planes else ''}, not "
                    f"{bits:g}; choose one of them, or bits by energy for a mean in between"
                )
        return self

    @property
    def reads_text(self) -> bool:
        """Return whether the weights depend on `text`."""
        return self.quantizer == "gptq" or self.by_energy

    @property
    def mean_bits(self) -> float:
        """Return the mean bits of the codes."""
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
        parts = [
            name,
            f"plan {self.content_hash()[:6]}" if isinstance(self.bits, BitsPlan) else "",
            f"group {self.group}" if self.group != 64 and self.quantizer != "planes" else "",
            f"head {self.head_bits}" if self.head_bits != 16 else "",
            f"on {self.text.label}" if self.reads_text and self.text != TextSpec() else "",
        ]
        return ", ".join(filter(None, parts))


def quantizer_names() -> tuple[str, ...]:
    """Return the names of all quantizers; no package is loaded."""
    return (*BUILT_IN_QUANTIZERS, *QUANTIZER_PLUGINS.names)


def _kind(value: object) -> str:
    return "Name" if isinstance(value, str) else "Spec"


Quantization = Annotated[
    Annotated[NamedQuantization, Tag("Name")] | Annotated[QuantizationSpec, Tag("Spec")], Discriminator(_kind)
]


def quantization_label(quantization: Quantization) -> str:
    """Return "none", "int8", "int4" or the spec's label."""
    return quantization if isinstance(quantization, str) else quantization.label


def printed_quantization(label: str) -> str:
    """Return a `quantization_label` as tables print it: "INT8", or a spec's label; empty for "none"."""
    return "" if label == "none" else label.upper() if label in get_args(Bits) else label


def load_bits_plan(path: Path) -> BitsPlan:
    """Return the plan of bits in a JSON file; WinaError where it cannot be read, is too large, or holds no plan."""
    try:
        return BitsPlan.model_validate_json(read_file(path, "plan"))
    except ValidationError as error:
        reason = explain(error).rstrip(".")
        raise WinaError(
            f"The file {path} is not a plan of bits ({reason}); choose one saved from the Sparsity page."
        ) from error
