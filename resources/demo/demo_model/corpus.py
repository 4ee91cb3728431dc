"""Text that ships with CPython, split by document into train, validation and held-out.

A document is one standard-library module or one topic of `pydoc_data.topics`. A hash of its name decides its split, so
the split is the same on every machine. Modules and topics copy from each other: a paragraph of the held-out text is
dropped from validation and train, and one of validation from train. A held-out or validation document that train
largely contains line by line is dropped.
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Split = Literal["heldout", "validation", "train"]
SPLITS: tuple[Split, ...] = ("heldout", "validation", "train")  # in order of precedence over shared text

HELDOUT_PERCENT = 7
VALIDATION_PERCENT = 5

# Tests are not prose and not idiomatic code; the rest are tables written by programs (or, for
# `_sysconfigdata`, the record of one machine's build).
EXCLUDED_FOLDERS = {"site-packages", "test", "tests", "idle_test", "encodings", "__phello__", "pydoc_data"}
EXCLUDED_FILES = re.compile(
    r"_sysconfigdata.*|__phello__.*|.*/?python-config|stringprep|locale|html/entities|this|antigravity"
)

# Shorter paragraphs ("try:", "return self") are common property, not copies.
SHARED_PARAGRAPH_CHARS = 64
LONG_LINE_CHARS = 40
COPIED_LINES_LIMIT = 0.1


@dataclass(frozen=True)
class Document:
    """`name` such as `json/decoder.py` or `topics/while`; `text` as shipped."""

    name: str
    text: str


def split_of(name: str) -> Split:
    """Return the split of a document, from its name alone."""
    percentile = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 100
    if percentile < HELDOUT_PERCENT:
        return "heldout"
    if percentile < HELDOUT_PERCENT + VALIDATION_PERCENT:
        return "validation"
    return "train"


def modules(root: Path) -> list[Document]:
    """Return the standard-library modules under `root`, sorted by name."""
    documents = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if EXCLUDED_FOLDERS & set(name.parts) or EXCLUDED_FILES.fullmatch(str(name.with_suffix("").as_posix())):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a few modules declare another encoding
            continue
        if text.strip():
            documents.append(Document(name.as_posix(), text))
    return documents


def topics() -> list[Document]:
    """Return the language reference as `help()` prints it, one document a topic, sorted by name."""
    from pydoc_data.topics import topics as texts

    return [Document(f"topics/{name}", text.strip() + "\n") for name, text in sorted(texts.items())]


def paragraphs(text: str) -> list[str]:
    """Return the blocks between blank lines; joined by blank lines they give the text back up to spacing."""
    return [block for block in re.split(r"\n\s*\n", text) if block.strip()]


def fingerprint(paragraph: str) -> str:
    """Return the paragraph without the white space that differs between copies."""
    return " ".join(paragraph.split())


def long_lines(document: Document) -> set[str]:
    """Return lines long enough to be recognized as copied."""
    return {line.strip() for line in document.text.splitlines() if len(line.strip()) >= LONG_LINE_CHARS}


def is_copy(document: Document, known_lines: set[str]) -> bool:
    """Return whether more than `COPIED_LINES_LIMIT` of the document's long lines are known."""
    lines = long_lines(document)
    return len(lines & known_lines) > COPIED_LINES_LIMIT * len(lines)


def build(documents: Iterable[Document]) -> dict[Split, list[Document]]:
    """Assign documents to splits and drop paragraphs that an earlier split (in `SPLITS` order) holds."""
    chosen: dict[Split, list[Document]] = {split: [] for split in SPLITS}
    for document in documents:
        chosen[split_of(document.name)].append(document)
    seen: set[str] = set()
    result: dict[Split, list[Document]] = {}
    for split in SPLITS:
        cleaned = []
        for document in chosen[split]:
            kept = [block for block in paragraphs(document.text) if fingerprint(block) not in seen]
            if kept:
                cleaned.append(Document(document.name, "\n\n".join(kept) + "\n"))
        result[split] = cleaned
        seen.update(
            mark
            for document in cleaned
            for mark in map(fingerprint, paragraphs(document.text))
            if len(mark) >= SHARED_PARAGRAPH_CHARS
        )
    train_lines = set().union(*map(long_lines, result["train"]))
    for split in SPLITS[:2]:
        result[split] = [document for document in result[split] if not is_copy(document, train_lines)]
    return result


def load() -> dict[Split, list[Document]]:
    """Return the splits of the running Python's standard library."""
    return build(modules(Path(sysconfig.get_path("stdlib"))) + topics())
