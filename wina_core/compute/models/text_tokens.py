"""Rows of tokens of a text, for calibration, activation statistics and fidelity."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from wina_core.errors import WinaError
from wina_core.model_info.resolve import text_file
from wina_core.model_info.text_files import read_text, split_range
from wina_core.specs import TextSpec
from wina_core.studies.tasks.check_runs import check_rows

_LONGEST = 16 * 2**20
"""Most characters read of a text, so that a file of many GB takes seconds at most."""
T = TypeVar("T")
_cache: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
"""What was read before, by tokenizer."""


def read_tokens(spec: TextSpec, tokenizer: Any) -> Tensor:
    """Return token ids, int64 [spec.tokens // spec.sequence, spec.sequence].

    Each row begins with BOS if the tokenizer adds it to texts, as in training; there are no other special tokens. The
    rows are spread evenly over the text, since neighbouring passages are alike. Raises WinaError if the file is
    missing, not UTF-8, or too short.
    """
    return _once(_ids, spec, tokenizer).clone()  # the caller may change its tokens, but not the cache


def read_other_tokens(spec: TextSpec, excluded: Sequence[TextSpec], tokenizer: Any) -> Tensor:
    """Return `read_tokens` of rows that share no token with those of the `excluded`, which read the same source, spread
    evenly over what is left of the text.

    Raises WinaError if too little is left.
    """
    ids, first = _once(_all_ids, spec, tokenizer), first_token(tokenizer)
    used = torch.zeros(len(ids), dtype=torch.bool)
    for other in excluded:
        size = _text_length(other, first)
        for start in _starts(other, len(ids), size):
            used[start : start + size] = True
    length = _text_length(spec, first)
    free = [start for start in range(0, len(ids) - length + 1, length) if not used[start : start + length].any()]
    rows = spec.tokens // spec.sequence
    if len(free) < rows:
        raise WinaError(
            f"The text {spec.source} has {len(free) * spec.sequence:,} tokens that no basis is computed from, but "
            f"{spec.tokens:,} are needed to compare rotations; choose fewer tokens for the bases or a longer text."
        )
    return _rows(ids, [free[row * len(free) // rows] for row in range(rows)], length, first)


def read_tokens_and_bytes(spec: TextSpec, tokenizer: Any) -> tuple[Tensor, Tensor]:
    """Return `read_tokens` and the UTF-8 bytes that each token adds to the text, int64 of the same shape; BOS adds 0.

    Sums of the bytes turn log-likelihoods into bits per byte. Bytes of no token count with the next one. Raises
    WinaError also for a tokenizer without character offsets (all "fast" ones have them).
    """
    if not tokenizer.is_fast:
        raise WinaError("This model's tokenizer does not tell where its tokens lie in a text; it needs tokenizer.json.")
    ids, counts = _once(_ids_and_bytes, spec, tokenizer)
    return ids.clone(), counts.clone()


def first_token(tokenizer: Any) -> int | None:
    """Return the id of the BOS token that a tokenizer puts before a text; None if it adds none."""
    bos = getattr(tokenizer, "bos_token_id", None)
    if bos is None:
        return None
    # Some tokenizers have a BOS token that they do not add.
    ids = tokenizer("a").input_ids
    return bos if ids and ids[0] == bos else None


def _once(tokenized: Callable[[str, TextSpec, Any], T], spec: TextSpec, tokenizer: Any) -> T:
    """Return `tokenized(text, ...)` from the cache if possible: each run of a job reads the same text."""
    text = _read(spec)
    cached = _cache.setdefault(tokenizer, {})
    # The length of the tokenizer, since tokens may have been added to it.
    key = tokenized, hashlib.sha256(text.encode("utf-8")).digest(), len(tokenizer), spec.tokens, spec.sequence
    if key not in cached:
        cached[key] = tokenized(text, spec, tokenizer)
    tokens: T = cached[key]
    return tokens


def _all_ids(text: str, _spec: TextSpec, tokenizer: Any) -> list[int]:
    return _encoded(text, tokenizer)


def _ids(text: str, spec: TextSpec, tokenizer: Any) -> Tensor:
    ids, first = _encoded(text, tokenizer), first_token(tokenizer)
    length = _text_length(spec, first)
    return _rows(ids, _starts(spec, len(ids), length), length, first)


def _ids_and_bytes(text: str, spec: TextSpec, tokenizer: Any) -> tuple[Tensor, Tensor]:
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    ends, first = [end for _, end in encoded["offset_mapping"]], first_token(tokenizer)
    length = _text_length(spec, first)
    starts, counts = _starts(spec, len(ends), length), []
    for start in starts:
        reached = ends[start - 1] if start else 0
        counts += [] if first is None else [0]
        for end in ends[start : start + length]:
            counts.append(len(text[reached:end].encode("utf-8")))
            reached = max(reached, end)  # the tokens of one character split by bytes all end where it does
    return _rows(encoded["input_ids"], starts, length, first), torch.tensor(counts).view(-1, spec.sequence)


def _encoded(text: str, tokenizer: Any) -> list[int]:
    """Return the ids of all tokens. Without their offsets, a fast tokenizer takes a third of the time."""
    if not tokenizer.is_fast:
        ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids
    tokenizer("", add_special_tokens=False)  # sets how the backend truncates, pads and splits
    fast: list[int] = tokenizer.backend_tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
    return fast


def _text_length(spec: TextSpec, first: int | None) -> int:
    return spec.sequence if first is None else spec.sequence - 1  # BOS takes a place of the row


def _starts(spec: TextSpec, available: int, length: int) -> list[int]:
    """Return where rows of `length` tokens begin among the text's tokens."""
    requested, rows = spec.tokens // spec.sequence, available // length
    if rows < requested:
        raise WinaError(
            f"The text {spec.source} has {available:,} tokens, but {spec.tokens:,} were requested; "
            "choose fewer tokens or a longer text."
        )
    return [row * rows // requested * length for row in range(requested)]


def _rows(ids: list[int], starts: list[int], length: int, first: int | None) -> Tensor:
    begin = [] if first is None else [first]
    return torch.tensor([begin + ids[start : start + length] for start in starts])


def _read(spec: TextSpec) -> str:
    check_rows(spec)
    return read_text(text_file(spec.source), split_range(spec.source)[1], _LONGEST)
