"""Write local data for the stock tasks of the paper: `python -m demo_model.stock_data`.

Each task gets a few short documents with the columns of the hub's data: sentences of the held-out text, split in two,
whose true ending is to be found among others, and templates for sums, programs or pairs of sentences. They let every
stock definition run without the hub; scores on them mean nothing.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from demo_model.paths import DATA, TEXT

DOCUMENTS = 8
SENTENCE_CHARS = (50, 150)
LETTERS = "ABCD"
_SENTENCE = re.compile(r"[A-Z][\w ,;:'()-]+\.")

Row = dict[str, Any]
Splits = dict[str, list[Row]]
"""The documents of a task by split."""


@dataclass(frozen=True)
class Question:
    """The beginning of a sentence and its possible ends."""

    stem: str
    choices: tuple[str, ...]
    answer: int
    """Index of the true choice."""


def sentences(text: str) -> list[str]:
    """Return plain English sentences of the text, each once, in order."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    shortest, longest = SENTENCE_CHARS
    found = (sentence for paragraph in paragraphs for sentence in re.split(r"(?<=\.) (?=[A-Z])", paragraph))
    plain = (each for each in found if _SENTENCE.fullmatch(each) and shortest <= len(each) <= longest)
    return list(dict.fromkeys(plain))


def halves(sentence: str) -> tuple[str, str]:
    """Split a sentence after two thirds of its words."""
    words = sentence.split()
    cut = len(words) * 2 // 3
    return " ".join(words[:cut]), " ".join(words[cut:])


def questions(text: list[str], choices: int, random_: random.Random) -> Iterator[Question]:
    """Yield a question from each sentence; its wrong choices are the ends of other sentences."""
    endings = [halves(each)[1] for each in text]
    for number, sentence in enumerate(text):
        stem, truth = halves(sentence)
        others = [ending for ending in endings if ending != truth]
        wrong = random_.sample(others, choices - 1)
        answer = number % choices
        yield Question(stem, (*wrong[:answer], truth, *wrong[answer:]), answer)


def piqa(question: Question) -> Row:
    return {"goal": question.stem, "sol1": question.choices[0], "sol2": question.choices[1], "label": question.answer}


def lettered(question: Question) -> Row:
    """Return the choices as ARC and OpenBookQA store them."""
    labels = list(LETTERS[: len(question.choices)])
    return {"choices": {"text": list(question.choices), "label": labels}, "answerKey": labels[question.answer]}


def arc(question: Question) -> Row:
    return {"question": f"How does this go on: {question.stem}", **lettered(question)}


def openbookqa(question: Question) -> Row:
    return {"question_stem": question.stem, **lettered(question)}


def hellaswag(question: Question) -> Row:
    words = question.stem.split()
    return {
        "activity_label": "Documentation",
        "ctx_a": " ".join(words[:-2]),
        "ctx_b": " ".join(words[-2:]),
        "endings": list(question.choices),
        "label": str(question.answer),
    }


def sciq(question: Question) -> Row:
    truth = question.choices[question.answer]
    wrong = [choice for choice in question.choices if choice != truth]
    return {
        "support": f"{question.stem} {truth}",
        "question": f"{question.stem} what?",
        "correct_answer": truth,
        **{f"distractor{number}": choice for number, choice in enumerate(wrong, start=1)},
    }


def winogrande(question: Question) -> Row:
    ending = question.choices[question.answer].split()
    options = [choice.split()[0] for choice in question.choices]
    return {
        "sentence": f"{question.stem} _ {' '.join(ending[1:])}",
        "option1": options[0],
        "option2": options[1],
        "answer": str(question.answer + 1),
    }


def boolq(question: Question) -> Row:
    truth = question.choices[question.answer]
    return {
        "passage": f"{question.stem} {truth}",
        "question": f'does this text end in "{question.choices[0]}"',
        "label": int(question.answer == 0),
    }


def mmlu(question: Question) -> Row:
    stem = " ".join(question.stem.split()[-6:])
    choices = [" ".join(choice.split()[:4]) for choice in question.choices]
    return {"question": f"... {stem}", "choices": choices, "answer": question.answer}


def gsm8k(random_: random.Random) -> Row:
    shelves, books, lent = random_.randint(2, 9), random_.randint(3, 12), random_.randint(1, 5)
    total = shelves * books
    return {
        "question": f"A library has {shelves} shelves of {books} books each and lends {lent} of them. "
        "How many books are left?",
        "answer": f"There are {shelves} * {books} = <<{shelves}*{books}={total}>>{total} books.\n"
        f"{total} - {lent} = <<{total}-{lent}={total - lent}>>{total - lent} are left.\n#### {total - lent}",
    }


PROGRAMS = (
    ("double", "x", "Return twice x.", "x + x", "candidate(3) == 6"),
    ("absolute", "x", "Return the absolute value of x.", "x if x >= 0 else -x", "candidate(-2) == 2"),
    ("largest", "values", "Return the largest of a list of numbers.", "max(values)", "candidate([1, 7, 3]) == 7"),
    ("backwards", "text", "Return the text from its end to its beginning.", "text[::-1]", "candidate('abc') == 'cba'"),
    ("is_even", "x", "Whether x is even.", "x % 2 == 0", "candidate(4) is True"),
    ("total", "values", "Return the sum of a list of numbers.", "sum(values)", "candidate([1, 2, 3]) == 6"),
    ("first", "values", "Return the first of a list.", "values[0]", "candidate([5, 6]) == 5"),
    ("count", "text", "Return the number of letters a in the text.", "text.count('a')", "candidate('banana') == 3"),
)


def humaneval() -> Iterator[Row]:
    for number, (name, argument, task, solution, test) in enumerate(PROGRAMS):
        yield {
            "task_id": f"Demo/{number}",
            "prompt": f'def {name}({argument}):\n    """{task}"""\n',
            "canonical_solution": f"    return {solution}\n",
            "test": f"def check(candidate):\n    assert {test}\n",
            "entry_point": name,
        }


PAIRS = {
    "gender": [("Tea drinkers", "Coffee drinkers"), ("Cyclists", "Walkers")],
    "race-color": [("Owners of green bicycles", "Owners of blue bicycles"), ("Red kites", "Yellow kites")],
    "religion": [("Readers of novels", "Readers of poems"), ("Players of chess", "Players of cards")],
}
"""Pairs that no one minds, under the names by which the stock tasks choose their part of the data."""
REMARKS = ("like quiet mornings.", "are seen more often in spring.", "seldom come late.", "have much to tell.")


def crows_pairs() -> Iterator[Row]:
    for kind, pairs in PAIRS.items():
        for more, less in pairs:
            for remark in REMARKS:
                yield {
                    "sent_more": f"{more} {remark}",
                    "sent_less": f"{less} {remark}",
                    "stereo_antistereo": "stereo",
                    "bias_type": kind,
                }


def longbench(question: str, context: str, answers: list[str], classes: list[str] | None = None) -> Row:
    """Return a document in LongBench's format."""
    return {
        "question": question,
        "context": context,
        "answers": answers,
        "length": len(context.split()),
        "dataset": "demo",
        "language": "en",
        "all_classes": classes,
    }


TOPICS = ["Program", "Number", "Text"]


def longbench_passages(text: list[str]) -> Iterator[Row]:
    """Yield documents about a sentence among others, for questions and summaries."""
    for number in range(DOCUMENTS):
        passage = text[3 * number : 3 * number + 3]
        stem, truth = halves(passage[number % 3])
        yield longbench(f"How does this sentence end: {stem}", " ".join(passage), [truth], TOPICS)


def longbench_trec(text: list[str]) -> Iterator[Row]:
    for number in range(DOCUMENTS):
        shown = "\n".join(f"Question: {text[(number + at) % len(text)]}\nType: {TOPICS[at]}" for at in range(3))
        asked = text[(number + 3) % len(text)]
        yield longbench(f"Question: {asked}\nType:", shown, [TOPICS[number % 3]], TOPICS)


def longbench_lines() -> Iterator[Row]:
    """Yield the beginning of a program and its next line."""
    for name, argument, task, solution, _ in PROGRAMS:
        yield longbench("", f'def {name}({argument}):\n    """{task}"""\n', [f"    return {solution}"])


def longbench_counts(text: list[str]) -> Iterator[Row]:
    for number in range(DOCUMENTS):
        different = 2 + number % 3
        passages = [text[number + at % different] for at in range(4)]
        numbered = "\n\n".join(f"Paragraph {at}: {passage}" for at, passage in enumerate(passages, start=1))
        yield longbench("", numbered, [str(different)])


def longbench_places(text: list[str]) -> Iterator[Row]:
    """Yield documents that ask for an abstract's paragraph, with the answer in the English and the Chinese task's
    format."""
    for number in range(DOCUMENTS):
        passages = text[number : number + 4]
        numbered = "\n\n".join(f"Paragraph {at}: {passage}" for at, passage in enumerate(passages, start=1))
        place = number % 4
        yield longbench(halves(passages[place])[0], numbered, [f"Paragraph {place + 1} (段落{place + 1})"])


def build(text: list[str]) -> dict[str, Splits]:
    """Return the data of each folder."""
    random_ = random.Random(0)
    text = random_.sample(text, len(text))
    distinct = list({halves(sentence)[1].split()[0]: sentence for sentence in text}.values())
    """By the first word of their ends."""

    def asked(row: Callable[[Question], Row], choices: int, *splits: str) -> Splits:
        return {
            split: [row(each) for each in questions(random_.sample(distinct, DOCUMENTS), choices, random_)]
            for split in splits
        }

    return {
        "piqa": asked(piqa, 2, "train", "validation"),
        "arc": asked(arc, 4, "train", "validation", "test"),
        "openbookqa": asked(openbookqa, 4, "train", "validation", "test"),
        "hellaswag": asked(hellaswag, 4, "train", "validation"),
        "sciq": asked(sciq, 4, "train", "validation", "test"),
        "winogrande": asked(winogrande, 2, "train", "validation"),
        "boolq": asked(boolq, 2, "train", "validation"),
        "mmlu": asked(mmlu, 4, "dev", "test"),
        "gsm8k": {split: [gsm8k(random_) for _ in range(DOCUMENTS)] for split in ("train", "test")},
        "humaneval": {"test": list(humaneval())},
        "crows_pairs": {"test": list(crows_pairs())},
        "longbench": {"test": list(longbench_passages(text))},
        "longbench_trec": {"test": list(longbench_trec(text))},
        "longbench_lcc": {"test": list(longbench_lines())},
        "longbench_repobench-p": {"test": list(longbench_lines())},
        "longbench_passage_count": {"test": list(longbench_counts(text))},
        "longbench_passage_retrieval": {"test": list(longbench_places(text))},
    }


def main() -> None:
    for task, splits in build(sentences((TEXT / "heldout.txt").read_text(encoding="utf-8"))).items():
        folder = DATA / task
        folder.mkdir(parents=True, exist_ok=True)
        for split, rows in splits.items():
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / f"{split}.jsonl").write_text(lines, encoding="utf-8", newline="\n")
        print(f"{task}: {', '.join(f'{len(rows)} {split}' for split, rows in splits.items())}")


if __name__ == "__main__":
    main()
