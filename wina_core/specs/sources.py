"""Sources of models and texts."""

import re
from typing import Literal

from pydantic import Field

from wina_core.specs.base import Spec

DType = Literal["auto", "float64", "float32", "bfloat16", "float16"]
Bits = Literal["int8", "int4"]
Quantization = Literal["none", Bits]

ROLE = "role:"
"""Prefix of a model's location that names a role of the study, as "role:Llama-2-7B"."""


class ModelSource(Spec):
    """The source and the storage of a model. `location` is a local folder, a hub id, "demo", or "synthetic"."""

    location: str = Field(min_length=1)
    revision: str | None = None
    dtype: DType = "auto"
    device: str = "auto"
    """"auto", the accelerator if there is one; "cpu", "cuda", "cuda:1", ...; or "spread", the layers over all
    accelerators."""
    quantization: Quantization = "none"
    """Weight-only quantization of the gated matrices after rotation: int8 by torchao, int4 by HQQ."""
    fingerprint: str = ""
    """Digest of the local files (`sources.resolve.fingerprint`), which changes with the weights; empty until resolved,
    and for hub ids."""


class TextSpec(Spec):
    """`tokens // sequence` rows of `sequence` tokens, spread evenly over a text. `source` is a UTF-8 file, or
    "demo:calibration", "demo:training" or "demo:heldout" for the shipped ones."""

    source: str = "demo:calibration"
    tokens: int = Field(default=16_384, ge=64)
    sequence: int = Field(default=512, ge=16)
    fingerprint: str = ""
    """Digest of a user's file (`sources.resolve.resolve_text`); empty until resolved, and for shipped texts."""

    @property
    def label(self) -> str:
        """Return a short name, for example "16384 tokens of wikitext.txt 3fa9c1"."""
        name = self.source if self.source.startswith("demo:") else re.split(r"[/\\]", self.source)[-1]
        parts = [f"{self.tokens} tokens", f"in rows of {self.sequence}" if self.sequence != 512 else "", f"of {name}"]
        return " ".join(part for part in (*parts, self.fingerprint[:6]) if part)
