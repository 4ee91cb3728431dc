"""Sources of models."""

from typing import Literal

from pydantic import Field

from wina_core.specs.base import Spec
from wina_core.specs.quantization import Quantization

DType = Literal["auto", "float64", "float32", "bfloat16", "float16"]

ROLE = "role:"
"""Prefix of a model's location that names a role of the study, as "role:Llama-2-7B"."""


class ModelSource(Spec):
    """The source and the storage of a model.

    `location` is a local folder or GGUF file, a hub id, "demo", or "synthetic". The dtype "auto" is what suits the
    processor (`sources.sizes.suited`).
    """

    location: str = Field(min_length=1)
    revision: str | None = None
    dtype: DType = "auto"
    device: str = "auto"
    """"auto", the accelerator if there is one; "cpu", "cuda", "cuda:1", ...; or "spread", the layers over all
    accelerators."""
    quantization: Quantization = "none"
    """Weight-only quantization of the gated matrices after rotation: int8 by torchao, int4 by HQQ, or a spec."""
    fingerprint: str = ""
    """Digest of the local files (`model_info.resolve.fingerprint`), which changes with the weights; empty until
    resolved, and for hub ids."""
    bos: bool = False
    """Whether rows of text begin with the BOS token: `model_info.resolve` sets it where the tokenizer adds one. Numbers
    of a time when no row began with it are not those of this model."""

    @property
    def unquantized(self) -> "ModelSource":
        """Return the source of the same model with its weights as they are."""
        return self.model_copy(update={"quantization": "none"})
