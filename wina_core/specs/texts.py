"""Texts that are read for calibration, rotation, allocation and fidelity."""

import re
from typing import Literal

from pydantic import Field

from wina_core.specs.base import Spec

Scored = Literal["all", "second_half"]


class TextSpec(Spec):
    """`tokens // sequence` rows of `sequence` tokens, spread evenly over a text. `source` is a UTF-8 file, or
    "demo:calibration", "demo:training" or "demo:heldout" for the shipped ones."""

    source: str = "demo:calibration"
    tokens: int = Field(default=16_384, ge=64)
    sequence: int = Field(default=512, ge=16)
    fingerprint: str = ""
    """Digest of a user's file (`sources.resolve.resolve_text`); empty until resolved, and for shipped texts."""
    scored: Scored = "all"
    """The positions of each row whose predictions are compared: all but BOS's, or, as llama-perplexity does, those of
    the second half that predict a token of the row."""

    @property
    def label(self) -> str:
        """Return a short name, for example "16384 tokens of wikitext.txt 3fa9c1"."""
        name = self.source if self.source.startswith("demo:") else re.split(r"[/\\]", self.source)[-1]
        parts = [
            f"{self.tokens} tokens",
            f"in rows of {self.sequence}" if self.sequence != 512 else "",
            f"of {name}",
            self.fingerprint[:6],
            "scored in second halves" if self.scored == "second_half" else "",
        ]
        return " ".join(part for part in parts if part)
