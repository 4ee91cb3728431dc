"""Texts that are read for calibration, rotation, allocation and fidelity."""

import re

from pydantic import Field

from wina_core.specs.base import Spec


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
