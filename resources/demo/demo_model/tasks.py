"""Write the data of the demo's lm-eval tasks: `python -m demo_model.tasks`.

`demo_choice`: some lines of a held-out document and four continuations, one of them true. The others come from other
held-out documents, begin alike, are as long and as common: of many candidates, those whose probability under a byte
5-gram model is nearest to the true one's. So only the fit to the text decides. `demo_ppl`: passages of held-out
documents that fit the model's context.

Nothing shares `WINDOW_CHARS` consecutive characters with training or validation text.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from demo_model import corpus
from demo_model.ngram import NGram, byte_model, bytes_of
from demo_model.paths import TASKS

WINDOW_CHARS = 64
QUESTIONS = 500
CHOICES = 4
CONTEXT_CHARS = (200, 340)  # about 55 to 100 tokens
ANSWER_CHARS = (20, 44)
CANDIDATES = 160  # places looked at for wrong choices; about one in ten fits
ENOUGH_CANDIDATES = 4 * CHOICES
PASSAGE_CHARS = 1000  # about 280 tokens; dense code can take almost twice as many and must still fit
PASSAGES = 120


def windows(text: str) -> Iterator[str]:
    """Yield all stretches of WINDOW_CHARS characters."""
    return (text[start : start + WINDOW_CHARS] for start in range(len(text) - WINDOW_CHARS + 1))


def shared_windows(texts: Iterable[str], known: Iterable[str]) -> set[str]:
    """Return the windows of `texts` that occur in `known`, which may be far larger than `texts`."""
    wanted = {window for text in texts for window in windows(text)}
    return {window for text in known for window in windows(text) if window in wanted}


def cut_points(text: str) -> list[int]:
    """Return positions of single spaces between two words, where a continuation may start in any tokenizer."""
    return [
        position
        for position in range(1, len(text) - 1)
        if text[position] == " " and not text[position - 1].isspace() and text[position + 1].isalpha()
    ]


def cut(text: str, start: int, length: int) -> str:
    """Return the text from `start` to the end of the word that reaches `length` characters."""
    end = start + length
    while end < len(text) and not text[end].isspace():
        end += 1
    return text[start:end].rstrip()


def context_before(text: str, position: int) -> str:
    """Return whole lines before `position` and the start of its own line, CONTEXT_CHARS long; empty if there are
    none."""
    shortest, longest = CONTEXT_CHARS
    line_end = text.find("\n", max(position - longest, 0), position - shortest)
    return text[line_end + 1 : position] if line_end >= 0 else ""


@dataclass(frozen=True)
class Source:
    """A document and the possible starts of continuations."""

    document: corpus.Document
    points: list[int]


def alike(truth: str, sources: list[Source], random_: random.Random) -> list[str]:
    """Return continuations from `sources` that begin with another word than `truth` but look like it."""
    found = []
    for _ in range(CANDIDATES):
        source = random_.choice(sources)
        choice = cut(source.document.text, random_.choice(source.points), len(truth) - 2)
        same_look = abs(len(choice) - len(truth)) <= 2 and choice[1].islower() == truth[1].islower()
        if same_look and choice.split()[0] != truth.split()[0] and choice not in found:
            found.append(choice)
    return found


def questions(
    source: Source, others: list[Source], baseline: NGram, random_: random.Random
) -> Iterator[dict[str, Any]]:
    """Yield all possible questions from `source`, in random order, the true continuation first."""
    text = source.document.text
    for position in random_.sample(source.points, len(source.points)):
        context = context_before(text, position)
        truth = cut(text, position, random_.randint(*ANSWER_CHARS))
        wrong = alike(truth, others, random_) if context else []
        if len(wrong) >= ENOUGH_CANDIDATES:
            bits = baseline.bits(bytes_of(truth))
            wrong.sort(key=lambda choice: abs(baseline.bits(bytes_of(choice)) - bits))
            choices = [truth, *wrong[: CHOICES - 1]]
            yield {"source": source.document.name, "context": context, "choices": choices}


def in_turn(sources: list[Iterator[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield one item from each source in turn until all are spent, so that large sources do not dominate."""
    while sources:
        remaining = []
        for source in sources:
            for item in islice(source, 1):
                yield item
                remaining.append(source)
        sources = remaining


def passages(document: corpus.Document, random_: random.Random) -> Iterator[dict[str, Any]]:
    """Yield the document's runs of whole lines of at most PASSAGE_CHARS characters, in random order."""
    runs = [""]
    for line in document.text.splitlines(keepends=True):
        if len(runs[-1]) + len(line) > PASSAGE_CHARS:
            runs.append("")
        runs[-1] += line
    full = [run for run in runs if PASSAGE_CHARS / 2 <= len(run) <= PASSAGE_CHARS]
    for text in random_.sample(full, len(full)):
        yield {"source": document.name, "text": text}


def readings(item: dict[str, Any]) -> list[str]:
    """Return every text that a model reads for a question or a passage."""
    return [item["text"]] if "text" in item else [item["context"] + choice for choice in item["choices"]]


def unseen(items: list[dict[str, Any]], known: list[str]) -> list[dict[str, Any]]:
    """Return the items without a reading that shares a window with `known`."""
    shared = shared_windows([text for item in items for text in readings(item)], known)
    return [item for item in items if not any(w in shared for text in readings(item) for w in windows(text))]


def place_answer(item: dict[str, Any], answer: int) -> dict[str, Any]:
    """Move the true choice from the first place to `answer`."""
    truth, *others = item["choices"]
    return {**item, "choices": [*others[:answer], truth, *others[answer:]], "answer": answer}


def build(splits: dict[corpus.Split, list[corpus.Document]]) -> dict[str, list[dict[str, Any]]]:
    """Return the data of each task by file name."""
    random_ = random.Random(0)
    baseline = byte_model(splits["train"])
    known = [document.text for split in ("train", "validation") for document in splits[split]]
    heldout = [Source(document, cut_points(document.text)) for document in splits["heldout"]]
    sources = [source for source in heldout if source.points]
    # Half as many again as needed: some are dropped for what they share.
    asked = in_turn([questions(s, [other for other in sources if other is not s], baseline, random_) for s in sources])
    read = in_turn([passages(source.document, random_) for source in sources])
    chosen = unseen(list(islice(asked, QUESTIONS * 3 // 2)), known)[:QUESTIONS]
    return {
        "demo_choice.jsonl": [place_answer(item, number % CHOICES) for number, item in enumerate(chosen)],
        "demo_ppl.jsonl": unseen(list(islice(read, PASSAGES * 3 // 2)), known)[:PASSAGES],
    }


def main() -> None:
    TASKS.mkdir(parents=True, exist_ok=True)
    for name, items in build(corpus.load()).items():
        lines = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
        (TASKS / name).write_text(lines, encoding="utf-8", newline="\n")
        print(f"{name}: {len(items)} items from {len({item['source'] for item in items})} documents")


if __name__ == "__main__":
    main()
