"""Write the shipped excerpts: `python -m demo_model.text`.

`calibration.txt` comes from the validation split and `heldout.txt` from the held-out split, so they share nothing.
`training.txt` is part of the training text, for fits that would overfit a short text.
"""

from __future__ import annotations

from demo_model import corpus
from demo_model.paths import TEXT

SOURCES: dict[str, tuple[corpus.Split, int]] = {  # of the split's documents, every so many-th
    "calibration.txt": ("validation", 1),
    "heldout.txt": ("heldout", 1),
    "training.txt": ("train", 4),
}
EXCERPT_CHARS = 16_000  # of each document, so that no single large module dominates


def excerpt(text: str, limit: int = EXCERPT_CHARS) -> str:
    """Return the whole lines within the first `limit` characters."""
    return text if len(text) <= limit else text[: text.rindex("\n", 0, limit) + 1]


def main() -> None:
    documents = corpus.load()
    TEXT.mkdir(parents=True, exist_ok=True)
    for name, (split, every) in SOURCES.items():
        chosen = documents[split][::every]
        text = "\n".join(excerpt(document.text) for document in chosen)
        (TEXT / name).write_text(text, encoding="utf-8", newline="\n")
        print(f"{name}: {len(text.encode())} bytes from {len(chosen)} documents")


if __name__ == "__main__":
    main()
