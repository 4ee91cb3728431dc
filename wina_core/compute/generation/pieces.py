"""Incremental decoding of token ids to text, never showing half a character."""

from collections.abc import Sequence
from typing import Any

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_LONGEST = 4
"""Most tokens of one UTF-8 character."""


class Pieces:
    """The text that each token adds. A token that ends within a character adds nothing; the one that completes it adds
    all of it. A special token appears as its name.

    The text of a token depends on earlier ones (spaces, bytes of one character), so a few of them are decoded with it.
    """

    def __init__(self, tokenizer: Any, before: Sequence[int] = ()) -> None:
        """Start after the tokens `before`, whose text is already shown."""
        self._tokenizer = tokenizer
        self._special = frozenset(tokenizer.all_special_ids)
        self._ids: list[int] = []
        self._from = self._shown = 0
        for token in before:
            self.add(token)

    def add(self, token: int) -> str:
        """Return the text that the next token adds."""
        if token in self._special:
            self._ids, self._from, self._shown = [], 0, 0
            return str(self._tokenizer.convert_ids_to_tokens(token))
        self._ids.append(token)
        before = self._decode(self._ids[self._from : self._shown])
        text = self._decode(self._ids[self._from :])
        if text.endswith(_UNFINISHED) and len(self._ids) - self._shown < _LONGEST:
            return ""
        self._from, self._shown = self._shown, len(self._ids)
        return text[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, clean_up_tokenization_spaces=False))
