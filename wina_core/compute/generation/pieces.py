"""From token ids to text as they come, without ever showing half a character."""

from collections.abc import Sequence
from typing import Any

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_LONGEST = 4
"""Tokens that one character of UTF-8 can take; after so many, bytes are no character."""


class Pieces:
    """The text that each token adds. One that ends within a character adds nothing, and the token that completes the
    character adds all of it; a special token stands as its name.

    What a token adds depends on those before it (spaces, bytes of one character), so a few of them are decoded
    with it.
    """

    def __init__(self, tokenizer: Any, before: Sequence[int] = ()) -> None:
        """`before` is what is there already, and whose text is not asked for."""
        self._tokenizer = tokenizer
        self._special = frozenset(tokenizer.all_special_ids)
        self._ids: list[int] = []
        self._from = self._shown = 0
        for token in before:
            self.add(token)

    def add(self, token: int) -> str:
        """What the next token adds."""
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
