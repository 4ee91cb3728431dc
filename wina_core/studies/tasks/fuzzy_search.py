"""Fuzzy search over names: the one behind the task search and the command palette."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

_FEW = 20
"""Number of literal matches below which mistyped and abbreviated names are searched too."""
_SHORTEST_MISTYPED = 4
"""Length of the shortest query that may have a wrong letter."""
_SEPARATORS = re.compile(r"[\W_]+")


class FuzzySearch:
    """Texts prepared for searching: a tenth of a second for 15,000, after which a search takes milliseconds."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        """Index of each text, the shortest text first; the lists below have this order."""
        words = [_words(texts[index]) for index in self._order]
        self._spaced = [" " + " ".join(text_words) for text_words in words]
        self._joined = [f" {''.join(text_words)} " for text_words in words]
        self._initials = ["".join(word[0] for word in text_words) for text_words in words]

    def search(self, query: str, limit: int | None = None) -> list[int]:
        """Return the indices of at most `limit` matching texts, best first; of all texts, in order, for an empty query.

        The best texts begin with the query. Then come texts in which every word of the query begins a word, texts
        whose words have the query as initials, and texts that contain every word. If these are few, texts follow that
        contain the query with one wrong, extra, missing or swapped letter, and then texts that have its letters in
        order. Shorter texts come first. Case and punctuation do not matter.
        """
        words = _words(query)
        if not words:
            return sorted(self._order)[:limit]
        letters = "".join(words)
        ranked = dict.fromkeys(self._literal(words, letters))
        for matches in (self._mistyped, self._in_order):
            if len(ranked) < _FEW:
                ranked |= dict.fromkeys(matches(letters))
        return [self._order[rank] for rank in islice(ranked, limit)]

    def _literal(self, words: list[str], letters: str) -> Iterator[int]:
        beginning, word_beginnings = " " + " ".join(words), [" " + word for word in words]
        abbreviated = [index for index, text in enumerate(self._initials) if letters in text] if letters[1:] else []
        indices: Iterable[int] = range(len(self._spaced))
        for word in words:
            indices = [index for index in indices if word in self._spaced[index]]
        tiers: tuple[list[int], ...] = ([], [], [])
        for index in indices:
            text = self._spaced[index]
            tier = 0 if text.startswith(beginning) else 1 if all(word in text for word in word_beginnings) else 2
            tiers[tier].append(index)
        return chain(tiers[0], tiers[1], abbreviated, tiers[2])

    def _mistyped(self, letters: str) -> Iterable[int]:
        from rapidfuzz import fuzz, process  # not imported with the window: it takes a tenth of a second

        if len(letters) < _SHORTEST_MISTYPED:
            return []
        # All letters but one agree with a stretch of the same length. Names have a space at either end, so that the
        # stretch may be longer than the name.
        least = 100 * (len(letters) - 1.01) / len(letters)
        matches = process.extract_iter(letters, self._joined, scorer=fuzz.partial_ratio, score_cutoff=least)
        return [index for _, _, index in matches]

    def _in_order(self, letters: str) -> Iterable[int]:
        from rapidfuzz import process
        from rapidfuzz.distance import LCSseq

        matches = process.extract_iter(letters, self._joined, scorer=LCSseq.similarity, score_cutoff=len(letters))
        return [index for _, _, index in matches]


def _words(text: str) -> list[str]:
    return _SEPARATORS.sub(" ", text.casefold()).split()
