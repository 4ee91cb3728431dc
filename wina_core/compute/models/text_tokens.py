"""Rows of tokens of a text, for calibration, activation statistics and fidelity."""

import hashlib
from io import TextIOWrapper
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from wina_core.errors import WinaError
from wina_core.files.user_file import open_file
from wina_core.sources.resolve import text_file
from wina_core.specs import TextSpec
from wina_core.tasks.check_runs import check_rows

_LONGEST = 16 * 2**20
"""Most characters read of a text, so that a file of many GB takes seconds at most."""


_Rows = tuple[Tensor, Tensor | None]
_kept: WeakKeyDictionary[Any, dict[tuple[bytes, int, int, int], _Rows]] = WeakKeyDictionary()
"""Rows that were read before, by tokenizer."""


def read_tokens(spec: TextSpec, tokenizer: Any) -> Tensor:
    """Return token ids, int64 [spec.tokens // spec.sequence, spec.sequence], without special ones.

    The rows are spread evenly over the text, since neighbouring passages are alike. Raises WinaError if the file is
    missing, not UTF-8, or too short.
    """
    return _rows(spec, tokenizer)[0].clone()


def read_tokens_and_bytes(spec: TextSpec, tokenizer: Any) -> tuple[Tensor, Tensor]:
    """Return `read_tokens` and the UTF-8 bytes that each token adds to the text, int64 of the same shape.

    Sums of the bytes turn log-likelihoods into bits per byte. Bytes of no token count with the next one. Raises
    WinaError also for a tokenizer without character offsets (all "fast" ones have them).
    """
    ids, byte_counts = _rows(spec, tokenizer)
    if byte_counts is None:
        raise WinaError("This model's tokenizer does not tell where its tokens lie in a text; it needs tokenizer.json.")
    return ids.clone(), byte_counts.clone()


def _rows(spec: TextSpec, tokenizer: Any) -> _Rows:
    """Return token ids and the bytes that each adds: each run reads the same text, and tokenizing takes a second for
    each megabyte."""
    check_rows(spec)
    text = _read(spec)
    kept = _kept.setdefault(tokenizer, {})
    key = hashlib.sha256(text.encode("utf-8")).digest(), len(tokenizer), spec.tokens, spec.sequence
    if key not in kept:
        kept[key] = _tokenized(text, spec, tokenizer)
    return kept[key]


def _tokenized(text: str, spec: TextSpec, tokenizer: Any) -> _Rows:
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=tokenizer.is_fast, verbose=False)
    ids: list[int] = encoded["input_ids"]
    wanted, available = spec.tokens // spec.sequence, len(ids) // spec.sequence
    if available < wanted:
        raise WinaError(
            f"The text {spec.source} has {len(ids):,} tokens, but {spec.tokens:,} were requested; "
            "choose fewer tokens or a longer text."
        )
    starts = [row * available // wanted * spec.sequence for row in range(wanted)]
    rows = torch.tensor([ids[start : start + spec.sequence] for start in starts])
    if not tokenizer.is_fast:
        return rows, None
    ends, counts = [end for _, end in encoded["offset_mapping"]], []
    for start in starts:
        reached = ends[start - 1] if start else 0
        for end in ends[start : start + spec.sequence]:
            counts.append(len(text[reached:end].encode("utf-8")))
            reached = max(reached, end)  # the tokens of one character split by bytes all end where it does
    return rows, torch.tensor(counts).view(-1, spec.sequence)


def _read(spec: TextSpec) -> str:
    path = text_file(spec.source)
    try:
        with open_file(path, "text") as file, TextIOWrapper(file, encoding="utf-8", newline="") as text:
            return text.read(_LONGEST)
    except UnicodeDecodeError as error:
        raise WinaError(f"The text file {path} is not UTF-8; save it in that encoding.") from error
