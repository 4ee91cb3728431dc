"""The settings of a completion of a prompt."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from wina_core.specs import DENSE, NO_ROTATION, CalibrationSpec, MethodSpec, ModelSource, RotationSpec
from wina_core.specs.base import Spec, SpecPart
from wina_core.specs.plans import SparsityPlan, UniformSparsity

MOST_TOKENS = 2**17
"""Of a completion; larger numbers are typing mistakes."""


class SamplingSpec(SpecPart):
    """The choice of each next token: the most likely one at a temperature of 0, else a sample of softmax(logits / T).

    Only the smallest set of tokens with a mass of at least `top_p` is sampled. The noise depends on the seed and the
    position alone (`compute.generation.reader`): two completions differ only where their distributions do, and a
    resumed completion continues unchanged.
    """

    temperature: float = Field(default=0.0, ge=0.0, le=10.0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0, lt=2**32)


class CompletionSpec(SpecPart):
    """One completion: by the dense model, or gated by a method at some sparsity."""

    rotation: RotationSpec = NO_ROTATION
    method: MethodSpec = DENSE
    plan: Annotated[UniformSparsity | SparsityPlan, Field(discriminator="kind")] = UniformSparsity(sparsity=0.0)
    calibration: CalibrationSpec | None = None
    prefix: tuple[int, ...] = ()
    """Token ids that the completion begins with, read together with the prompt."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.method.check_calibration(self.calibration)
        return self

    @property
    def is_dense(self) -> bool:
        return self.method.name == DENSE.name

    @property
    def label(self) -> str:
        """Return a heading, for example "wina 50 %, global + heads"."""
        if self.is_dense:
            return self.method.label
        rotation = "" if self.rotation.is_identity else f", {self.rotation.label}"
        return f"{self.method.label} {100 * self.plan.budget:.4g} %{rotation}"


class CompletionPoint(Spec):
    """One completion of one prompt, by which it is stored."""

    model: ModelSource
    prompt: str
    chat: bool = False
    new_tokens: int
    sampling: SamplingSpec = SamplingSpec()
    configuration: CompletionSpec = CompletionSpec()
    """Without its prefix, which changes no token."""

    @property
    def dense(self) -> "CompletionPoint":
        return self.model_copy(update={"configuration": CompletionSpec()})
