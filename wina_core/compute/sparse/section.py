"""The part of config.json that describes a sparse model."""

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wina_core.errors import WinaError, explain
from wina_core.specs import MethodSpec, Quantization, RotationSpec
from wina_core.specs.plans import SparsityPlan

TensorForm = tuple[str, tuple[int, ...]]
"""Data type as in safetensors, and shape."""


class StoredWeights(BaseModel):
    """Quantized weights of one form: their tensors are under the modules' names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: tuple[str, ...]
    """Linear layers."""
    form: dict[str, Any]
    """As of `quantized_linear.form_of`."""
    parts: dict[str, TensorForm]


class StoredTensors(BaseModel):
    """Tensors of the gates that have one form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: tuple[str, ...]
    form: TensorForm


class SparseSection(BaseModel):
    """Everything about a sparse model that is no tensor."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    quant_method: Literal["wina"] = "wina"
    format_version: Literal[1] = 1
    program: str
    """Version of the program that wrote it."""
    method: MethodSpec
    plan: SparsityPlan
    """Target sparsities of its matrices."""
    dense_prefix: float = Field(default=0.0, ge=0, lt=1)
    """Share of a prompt's first tokens that is not gated."""
    ties: bool = False
    """Whether top k keeps all inputs that score like the last one."""
    rotation: RotationSpec | None = None
    quantization: Quantization = "none"
    weights: tuple[StoredWeights, ...] = ()
    """Quantized linear layers. Equal ones have one entry, since transformers copies and prints this several times."""
    gates: tuple[StoredTensors, ...] = ()
    """Tensors of the gates."""
    source: str = ""
    """The model it was made from."""
    fingerprint: str = ""
    run: str = ""
    """Hash of the run that measured it."""
    digest: str = ""
    """Hash of all this, by which changes are noticed."""

    @property
    def weights_by_name(self) -> dict[str, StoredWeights]:
        """Return the entry of each quantized layer."""
        return {name: each for each in self.weights for name in each.names}

    @property
    def gates_by_name(self) -> dict[str, TensorForm]:
        """Return the form of each tensor of the gates."""
        return {name: each.form for each in self.gates for name in each.names}

    def signed(self) -> "SparseSection":
        """Return the section with its hash."""
        return self.model_copy(update={"digest": _digest(self.model_dump(mode="json", exclude={"digest"}))})


def _digest(content: dict[str, Any]) -> str:
    """Return a hash of a section as it is in config.json, so that later versions' defaults change nothing."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def parse_section(content: dict[str, Any]) -> SparseSection:
    """Return a section; raise WinaError for a damaged one and for one of another version."""
    version = content.get("format_version")
    if version != 1:
        raise WinaError(
            f"The sparse model's section in config.json has the format version {version!r}, but this program reads 1; "
            "install the version of wina-workbench that wrote it, or export the model again."
        )
    try:
        section = SparseSection.model_validate(content)
    except ValidationError as error:
        reason = explain(error).rstrip(".")
        raise WinaError(
            f"The sparse model's section in config.json is damaged ({reason}); export the model again."
        ) from error
    named = {name: value for name, value in content.items() if name != "digest"}
    if section.digest != _digest(named):
        raise WinaError(
            "The sparse model's section in config.json was changed after it was written; export the model again."
        )
    return section
