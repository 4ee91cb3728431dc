"""Splits depend on names alone and share no paragraph."""

from demo_model import corpus
from demo_model.corpus import Document

LONG = "    # a paragraph that is long enough to be recognized when it is copied elsewhere, word by word\n"


def name_in(split: corpus.Split) -> str:
    return next(name for name in (f"module{n}.py" for n in range(1000)) if corpus.split_of(name) == split)


def test_split_of_known_names_never_changes() -> None:
    assert corpus.split_of("typing.py") == "heldout"
    assert corpus.split_of("difflib.py") == "validation"
    assert corpus.split_of("argparse.py") == "train"


def test_a_shared_paragraph_stays_only_in_the_text_that_is_measured_on() -> None:
    heldout, train = name_in("heldout"), name_in("train")
    filler = "\n\n".join(f"    value_{n} = compute_the_value_of_something({n}, {n + 1})" for n in range(50))
    documents = [
        Document(heldout, f"{LONG}\n{filler}\n"),
        Document(train, f"x = 1\n\n{LONG}\ny = 2\n"),
    ]
    splits = corpus.build(documents)
    assert LONG.strip() in splits["heldout"][0].text
    assert [" ".join(document.text.split()) for document in splits["train"]] == ["x = 1 y = 2"]


def test_a_heldout_document_that_is_mostly_copied_lines_is_dropped() -> None:
    lines = [f"    value_{n} = compute_the_value_of_something({n}, {n + 1})" for n in range(50)]
    one_paragraph = "\n".join(lines) + "\n"
    documents = [
        Document(name_in("heldout"), one_paragraph),
        Document(name_in("train"), one_paragraph + "    changed = True\n"),
    ]
    assert corpus.build(documents)["heldout"] == []
