"""Records of exported models."""

from typing import Literal

from wina_core.records.base import Record

GgufType = Literal["auto", "f32", "f16", "bf16", "q8_0"]
"""Types of weights that llama.cpp's converter writes; `auto` is the 16-bit type nearest to the stored one."""


class ExportRecord(Record):
    """A sparse model's folder."""

    folder: str
    bytes: int
    """Size of all its files."""


class PerplexityPair(Record):
    """Perplexities of one model in two programs on the same tokens."""

    text: str
    tokens: int
    transformers: float
    llama_cpp: float
    same_tokens: bool
    """Whether llama.cpp splits the text into the same tokens."""


class GgufRecord(Record):
    """A GGUF file of a plain model."""

    file: str
    bytes: int
    perplexity: PerplexityPair | None
    """None where llama-cpp-python is not installed."""
