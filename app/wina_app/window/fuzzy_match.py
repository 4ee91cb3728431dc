"""Finding an entry by some of its letters, as a command palette does."""

from collections.abc import Iterable, Iterator

_START, _RUN, _GAP = 8, 5, 1
"""What the first letter of a word, and a letter right after the one before, are worth; what a letter skipped costs."""


def score(query: str, text: str) -> int | None:
    """How well the letters of `query` are found in `text` in their order, case and blanks aside; None if they are not.

    Letters at the beginnings of words and letters in a row count for more, skipped ones and long texts for less.
    """
    wanted, letters = query.casefold().replace(" ", ""), list(_letters(text))
    best: dict[int, int] = {-1: 0}
    """Place of the last letter found: the best score that ends there."""
    for letter in wanted:
        reached: dict[int, int] = {}
        for place, (found, begins_word) in enumerate(letters):
            if found != letter:
                continue
            worth = _START if begins_word else 0
            before = [_step(last, place) + so_far for last, so_far in best.items() if last < place]
            if before:
                reached[place] = worth + max(before)
        best = reached
    return max(best.values()) * 16 - len(text) if best else None


def ranked(query: str, texts: Iterable[str]) -> list[int]:
    """Indices of the texts that have the query's letters, the best first, equals in their order."""
    found = [(score(query, text), index) for index, text in enumerate(texts)]
    return [index for points, index in sorted(((p, i) for p, i in found if p is not None), key=lambda o: (-o[0], o[1]))]


def _step(last: int, place: int) -> int:
    if last < 0:
        return 0
    return _RUN if place == last + 1 else -min(_GAP * (place - last - 1), _RUN)


def _letters(text: str) -> Iterator[tuple[str, bool]]:
    """Letters whose case is folded, of which one may become several, and whether a word begins with each."""
    for place, own in enumerate(text):
        for number, letter in enumerate(own.casefold()):
            yield letter, number == 0 and _begins_word(text, place)


def _begins_word(text: str, place: int) -> bool:
    before = text[place - 1] if place else " "
    return not before.isalnum() or (before.islower() and text[place].isupper())
