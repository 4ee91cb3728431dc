"""Texts that are read for calibration, rotation, allocation and fidelity."""

import re
from typing import Literal

from pydantic import Field

from wina_core.specs.base import Spec

Scored = Literal["all", "second_half"]
SECOND_HALF = "scored in second halves"
"""Part of the label of a text whose second halves of rows are scored."""


class TextSpec(Spec):
    """`tokens // sequence` rows of `sequence` tokens, spread evenly over a text.

    `source` is a UTF-8 file; or "demo:calibration", "demo:training" or "demo:heldout" for the shipped ones; or a file
    of JSON lines with a column "text" or "page", with a range of its rows if wanted, as in test.jsonl[3500:5153]; or
    the same of a data folder, as in data:lambada_openai[3500:]."""

    source: str = "demo:calibration"
    tokens: int = Field(default=16_384, ge=64)
    sequence: int = Field(default=512, ge=16)
    fingerprint: str = ""
    """Digest of a user's file (`model_info.resolve.resolve_text`); empty until resolved, and for shipped texts."""
    scored: Scored = "all"
    """The positions of each row whose predictions are compared: all but BOS's, or, as llama-perplexity does, those of
    the second half that predict a token of the row."""

    @property
    def label(self) -> str:
        """Return a short name, for example "16384 tokens of wikitext.txt 3fa9c1"."""
        *folders, name = re.split(r"[/\\]", self.source)
        if folders and (found := re.fullmatch(r"(?:test|validation|train)\.jsonl(.*)", name)):
            name = folders[-1] + found[1]  # splits of all data sets have equal names
        parts = [
            f"{self.tokens} tokens",
            f"in rows of {self.sequence}" if self.sequence != 512 else "",
            f"of {name}",
            self.fingerprint[:6],
            SECOND_HALF if self.scored == "second_half" else "",
        ]
        return " ".join(part for part in parts if part)
