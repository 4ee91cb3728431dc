"""Search over studies."""

from collections.abc import Sequence
from pathlib import Path

from wina_app.pages.studies.study_state import facts
from wina_core.studies.gallery import GalleryEntry
from wina_core.studies.tasks.fuzzy_search import FuzzySearch


class StudySearch:
    """Texts of studies prepared for searching."""

    def __init__(self, entries: Sequence[GalleryEntry]) -> None:
        self._files = [entry.file for entry in entries]
        self._texts = [_text(entry).casefold() for entry in entries]
        self._names = FuzzySearch([_name(entry) for entry in entries])

    def matching(self, query: str) -> set[Path]:
        """Return the files of the studies that have every word of a query in title, names, description or facts.

        If no study has, titles and names match that resemble the query: mistyped or abbreviated ones.
        """
        words = query.casefold().split()
        matches = {
            file for file, text in zip(self._files, self._texts, strict=True) if all(word in text for word in words)
        }
        return matches or {self._files[index] for index in self._names.search(query)}


def _name(entry: GalleryEntry) -> str:
    return f"{entry.title} {entry.name} {entry.file.stem}"


def _text(entry: GalleryEntry) -> str:
    study = entry.study
    if study is None:
        return _name(entry)
    return " ".join([_name(entry), study.description, *(text for _, text in facts(study))])
