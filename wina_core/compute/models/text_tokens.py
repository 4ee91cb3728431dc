"""Rows of tokens of a text, for calibration, activation statistics and fidelity."""

from io import TextIOWrapper
from typing import Any

import torch
from torch import Tensor

from wina_core.errors import WinaError
from wina_core.files.user_file import open_file
from wina_core.sources.resolve import text_file
from wina_core.specs import TextSpec
from wina_core.tasks.check_runs import check_rows

_LONGEST = 16 * 2**20
"""Most characters read of a text, so that a file of many GB takes seconds at most."""


def read_tokens(spec: TextSpec, tokenizer: Any) -> Tensor:
    """Return token ids, int64 [spec.tokens // spec.sequence, spec.sequence], without special ones.

    The rows are spread evenly over the text, since neighbouring passages are alike. Raises WinaError if the file is
    missing, not UTF-8, or too short.
    """
    return _Encoding(spec, tokenizer).rows(spec.sequence)


def read_tokens_and_bytes(spec: TextSpec, tokenizer: Any) -> tuple[Tensor, Tensor]:
    """Return `read_tokens` and the UTF-8 bytes that each token adds to the text, int64 of the same shape.

    Sums of the bytes turn log-likelihoods into bits per byte. Bytes of no token count with the next one. Raises
    WinaError also for a tokenizer without character offsets (all "fast" ones have them).
    """
    encoding = _Encoding(spec, tokenizer)
    if not encoding.ends:
        raise WinaError("This model's tokenizer does not tell where its tokens lie in a text; it needs tokenizer.json.")
    counts = []
    for start in encoding.starts:
        reached = encoding.ends[start - 1] if start else 0
        for end in encoding.ends[start : start + spec.sequence]:
            counts.append(len(encoding.text[reached:end].encode("utf-8")))
            reached = max(reached, end)  # the tokens of one character split by bytes all end where it does
    return encoding.rows(spec.sequence), torch.tensor(counts).view(-1, spec.sequence)


class _Encoding:
    """A text's tokens, and the starts of a TextSpec's rows among them."""

    def __init__(self, spec: TextSpec, tokenizer: Any) -> None:
        check_rows(spec)
        self.text = _read(spec)
        encoded = tokenizer(
            self.text, add_special_tokens=False, return_offsets_mapping=tokenizer.is_fast, verbose=False
        )
        self.ids: list[int] = encoded["input_ids"]
        self.ends: list[int] = [end for _, end in encoded["offset_mapping"]] if tokenizer.is_fast else []
        wanted, available = spec.tokens // spec.sequence, len(self.ids) // spec.sequence
        if available < wanted:
            raise WinaError(
                f"The text {spec.source} has {len(self.ids):,} tokens, but {spec.tokens:,} were requested; "
                "choose fewer tokens or a longer text."
            )
        self.starts = [row * available // wanted * spec.sequence for row in range(wanted)]

    def rows(self, sequence: int) -> Tensor:
        """Return token ids, int64 [rows, sequence]."""
        return torch.tensor([self.ids[start : start + sequence] for start in self.starts])


def _read(spec: TextSpec) -> str:
    path = text_file(spec.source)
    try:
        with open_file(path, "text") as file, TextIOWrapper(file, encoding="utf-8", newline="") as text:
            return text.read(_LONGEST)
    except UnicodeDecodeError as error:
        raise WinaError(f"The text file {path} is not UTF-8; save it in that encoding.") from error
