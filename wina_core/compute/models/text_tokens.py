"""Rows of tokens of a text, for calibration, activation statistics and fidelity."""

import hashlib
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Any, TypeVar
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
T = TypeVar("T")
_kept: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
"""What was read before, by tokenizer."""


def read_tokens(spec: TextSpec, tokenizer: Any) -> Tensor:
    """Return token ids, int64 [spec.tokens // spec.sequence, spec.sequence], without special ones.

    The rows are spread evenly over the text, since neighbouring passages are alike. Raises WinaError if the file is
    missing, not UTF-8, or too short.
    """
    return _once(_ids, spec, tokenizer).clone()


def read_other_tokens(spec: TextSpec, others: Sequence[TextSpec], tokenizer: Any) -> Tensor:
    """Return `read_tokens` of rows that share no token with those of the `others`, which read the same source, spread
    evenly over what is left of the text.

    Raises WinaError if too little is left.
    """
    ids = _once(_all_ids, spec, tokenizer)
    taken = torch.zeros(len(ids), dtype=torch.bool)
    for other in others:
        for start in _starts(other, len(ids)):
            taken[start : start + other.sequence] = True
    free = [start for start in range(0, len(ids) - spec.sequence + 1, spec.sequence)
            if not taken[start : start + spec.sequence].any()]  # fmt: skip
    rows = spec.tokens // spec.sequence
    if len(free) < rows:
        raise WinaError(
            f"The text {spec.source} has {len(free) * spec.sequence:,} tokens that no basis is computed from, but "
            f"{spec.tokens:,} are needed to compare rotations; choose fewer tokens for the bases or a longer text."
        )
    return _rows(ids, [free[row * len(free) // rows] for row in range(rows)], spec.sequence)


def read_tokens_and_bytes(spec: TextSpec, tokenizer: Any) -> tuple[Tensor, Tensor]:
    """Return `read_tokens` and the UTF-8 bytes that each token adds to the text, int64 of the same shape.

    Sums of the bytes turn log-likelihoods into bits per byte. Bytes of no token count with the next one. Raises
    WinaError also for a tokenizer without character offsets (all "fast" ones have them).
    """
    if not tokenizer.is_fast:
        raise WinaError("This model's tokenizer does not tell where its tokens lie in a text; it needs tokenizer.json.")
    ids, counts = _once(_ids_and_bytes, spec, tokenizer)
    return ids.clone(), counts.clone()


def _once(tokenized: Callable[[str, TextSpec, Any], T], spec: TextSpec, tokenizer: Any) -> T:
    """Return what `tokenized` makes of the text, or made before: each run of a job reads it."""
    text = _read(spec)
    kept = _kept.setdefault(tokenizer, {})
    key = tokenized, hashlib.sha256(text.encode("utf-8")).digest(), len(tokenizer), spec.tokens, spec.sequence
    if key not in kept:
        kept[key] = tokenized(text, spec, tokenizer)
    found: T = kept[key]
    return found


def _all_ids(text: str, _spec: TextSpec, tokenizer: Any) -> list[int]:
    return _encoded(text, tokenizer)


def _ids(text: str, spec: TextSpec, tokenizer: Any) -> Tensor:
    ids = _encoded(text, tokenizer)
    return _rows(ids, _starts(spec, len(ids)), spec.sequence)


def _ids_and_bytes(text: str, spec: TextSpec, tokenizer: Any) -> tuple[Tensor, Tensor]:
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    ends = [end for _, end in encoded["offset_mapping"]]
    starts, counts = _starts(spec, len(ends)), []
    for start in starts:
        reached = ends[start - 1] if start else 0
        for end in ends[start : start + spec.sequence]:
            counts.append(len(text[reached:end].encode("utf-8")))
            reached = max(reached, end)  # the tokens of one character split by bytes all end where it does
    return _rows(encoded["input_ids"], starts, spec.sequence), torch.tensor(counts).view(-1, spec.sequence)


def _encoded(text: str, tokenizer: Any) -> list[int]:
    """Return the ids of all tokens. Without their offsets, a fast tokenizer takes a third of the time."""
    if not tokenizer.is_fast:
        ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids
    tokenizer("", add_special_tokens=False)  # sets how the backend truncates, pads and splits
    fast: list[int] = tokenizer.backend_tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
    return fast


def _starts(spec: TextSpec, available: int) -> list[int]:
    """Return where the rows begin among the text's tokens."""
    wanted, rows = spec.tokens // spec.sequence, available // spec.sequence
    if rows < wanted:
        raise WinaError(
            f"The text {spec.source} has {available:,} tokens, but {spec.tokens:,} were requested; "
            "choose fewer tokens or a longer text."
        )
    return [row * rows // wanted * spec.sequence for row in range(wanted)]


def _rows(ids: list[int], starts: list[int], sequence: int) -> Tensor:
    return torch.tensor([ids[start : start + sequence] for start in starts])


def _read(spec: TextSpec) -> str:
    check_rows(spec)
    path = text_file(spec.source)
    try:
        with open_file(path, "text") as file, TextIOWrapper(file, encoding="utf-8", newline="") as text:
            return text.read(_LONGEST)
    except UnicodeDecodeError as error:
        raise WinaError(f"The text file {path} is not UTF-8; save it in that encoding.") from error
