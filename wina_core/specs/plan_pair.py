"""A sparsity plan together with the quantization of its model: what files and saved plans hold."""

import json
from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError, model_validator

from wina_core.errors import WinaError, explain
from wina_core.files.user_file import read_file
from wina_core.specs.base import Part
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import BitsPlan, Quantization, QuantizationSpec


class PlanPair(Part):
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
        """Return the text of its file; without a quantization that of the sparsity plan alone, as it always was."""
        content = self.plan if self.quantization is None else self
        return content.model_dump_json(indent=indent) + "\n"

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Return the pair in a file's text, or a sparsity plan alone. Raises ValidationError."""
        if _is_pair(text):
            return cls.model_validate_json(text)
        return cls(plan=SparsityPlan.model_validate_json(text))


def load_pair(path: Path) -> PlanPair:
    """Return the plan in a JSON file with its bits; WinaError where it cannot be read, is too large, or is no plan."""
    try:
        return PlanPair.parse(read_file(path, "plan"))
    except ValidationError as error:
        reason = explain(error).rstrip(".")
        hint = "choose one saved from the Sparsity page"
        raise WinaError(f"The file {path} is not a sparsity plan ({reason}); {hint}.") from error


def _is_pair(text: str | bytes) -> bool:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):  # reported by the validation, with its place
        return False
    return isinstance(content, dict) and content.get("kind") == "pair"
