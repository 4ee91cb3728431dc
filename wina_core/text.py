"""Texts as rows of tokens, for calibration, activation statistics and deviation from dense."""

from typing import Any

import torch
from torch import Tensor

from wina_core.errors import WinaError
from wina_core.sources import text_file
from wina_core.specs import TextSpec

_CHARACTERS_PER_TOKEN = 8
"""First guess of how much text to tokenize; doubled until there are enough tokens."""


def read_tokens(spec: TextSpec, tokenizer: Any) -> Tensor:
    """Token ids, int64 [spec.tokens // spec.sequence, spec.sequence]: the text's first tokens, no special ones added.

    Raises WinaError when the file is missing, not UTF-8, or shorter than asked for.
    """
    rows = _rows(spec)
    tokens, _ = _encode(spec, tokenizer, rows * spec.sequence)
    return torch.tensor(tokens).view(rows, spec.sequence)


def read_byte_counts(spec: TextSpec, tokenizer: Any) -> Tensor:
    """UTF-8 bytes that each token of `read_tokens` adds to the text, int64 of the same shape.

    Sums of it turn log-likelihoods into bits per byte. Bytes that belong to no token count with the next one.
    Needs a tokenizer that knows character offsets (all "fast" ones do).
    """
    rows = _rows(spec)
    _, byte_ends = _encode(spec, tokenizer, rows * spec.sequence)
    ends = torch.tensor(byte_ends).cummax(0).values
    return ends.diff(prepend=ends.new_zeros(1)).view(rows, spec.sequence)


def _rows(spec: TextSpec) -> int:
    if spec.tokens < spec.sequence:
        raise WinaError(
            f"{spec.tokens:,} tokens do not fill one row of {spec.sequence:,}; ask for more tokens or shorter rows."
        )
    return spec.tokens // spec.sequence


def _encode(spec: TextSpec, tokenizer: Any, count: int) -> tuple[list[int], list[int]]:
    """The first `count` token ids, and the UTF-8 byte offset in the text at which each ends (0 if not known)."""
    path = text_file(spec.source)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise WinaError(f"The text file {path} is not UTF-8; save it in that encoding.") from error
    characters = count * _CHARACTERS_PER_TOKEN
    while True:
        part = text[:characters]
        encoded = tokenizer(part, add_special_tokens=False, return_offsets_mapping=tokenizer.is_fast, verbose=False)
        # A cut changes only the tokens next to it, so a few to spare make these the text's own.
        if len(encoded["input_ids"]) >= count + 64 or characters >= len(text):
            break
        characters *= 2
    if len(encoded["input_ids"]) < count:
        raise WinaError(
            f"The text {spec.source} has {len(encoded['input_ids']):,} tokens, but {count:,} were asked for; "
            "ask for fewer tokens or give a longer text."
        )
    offsets = encoded["offset_mapping"][:count] if tokenizer.is_fast else []
    bytes_before = [0]
    for character in part:
        bytes_before.append(bytes_before[-1] + len(character.encode("utf-8")))
    return encoded["input_ids"][:count], [bytes_before[end] for _, end in offsets]
