"""Texts of JSON lines and of data folders."""

import json
from pathlib import Path

import pytest

from tests.wina_core.tiny import tiny_tokenizer
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.errors import WinaError
from wina_core.model_info.resolve import resolve_text
from wina_core.model_info.text_files import share_rows
from wina_core.specs import Configuration, EvaluationSpec, ModelSource, TextSpec
from wina_core.specs.studies import StudySpec
from wina_core.studies.expand import expand


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, column in (("lambada_openai", "text"), ("wikitext", "page")):
        (tmp_path / name).mkdir()
        rows = [json.dumps({"id": row, column: f"{name} {row:03} " * 8}) for row in range(100)]
        (tmp_path / name / "test.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def first_row(spec: TextSpec) -> str:
    return tiny_tokenizer().decode(read_tokens(spec, tiny_tokenizer())[0])


@pytest.mark.parametrize(("rows", "first"), [("", "000"), ("[35:]", "035"), ("[:40]", "000"), ("[20:30]", "020")])
def test_a_range_of_rows_of_a_data_set_is_read(data: Path, rows: str, first: str) -> None:
    spec = resolve_text(TextSpec(source=f"data:lambada_openai{rows}", tokens=64, sequence=32), str(data))
    assert spec == resolve_text(spec)  # its file by now
    assert spec.source == f"{data / 'lambada_openai' / 'test.jsonl'}{rows}"
    assert first_row(spec).startswith(f"lambada_openai {first}")
    assert spec.label.endswith(f"of lambada_openai{rows} {spec.fingerprint[:6]}")


def test_rows_have_blank_lines_between_them_and_pages_are_texts(data: Path) -> None:
    spec = resolve_text(TextSpec(source="data:wikitext[7:9]", tokens=208, sequence=208), str(data))
    first, second = first_row(spec).split("\n\n")
    assert (first, second[:12]) == ("wikitext 007 " * 8, "wikitext 008")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("data:lambada_openai[90:120]", r"ends before the rows \[90:120\]"),
        ("data:pile", "has no pile/test.jsonl"),
        ("data:numbers", 'Line 1 of .* has no column "text" or "page"'),
        ("data:broken[1:]", "Line 2 of .* is no JSON"),
        ("data:halved", r"Line 1 of .* has half a surrogate pair \('\\ud83d'\), which is no character"),
        ("data:lambada_openai[99999999999999999999:]", r"ends before the rows \[99999999999999999999:\]"),
        (f"data:{'x' * 300}", "cannot be read|has no x+/test.jsonl"),
        ("data:..", r"'data:\.\.' names no folder"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(data: Path, source: str, message: str) -> None:
    contents = {
        "numbers": '{"text": 3}\n',
        "broken": '{"text": "a"}\n{"text"\n',
        "halved": '{"text": "half of \\ud83d"}\n',
    }
    for name, lines in contents.items():
        (data / name).mkdir()
        (data / name / "test.jsonl").write_text(lines)
    with pytest.raises(WinaError, match=message):
        first_row(resolve_text(TextSpec(source=source, tokens=64, sequence=32), str(data)))


def test_texts_of_a_study_lie_in_its_data_folder(data: Path) -> None:
    text = TextSpec(source="data:lambada_openai[35:]", tokens=512)
    evaluation = EvaluationSpec(fidelity=text, original=text, data_folder=str(data))
    study = StudySpec(
        name="texts", models=(ModelSource(location="demo"),), configurations=(Configuration(),), evaluation=evaluation
    )
    (run,) = expand(study)
    assert run.evaluation.fidelity == run.evaluation.original == resolve_text(text, str(data))


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("a.jsonl", "a.jsonl[3500:]", True),
        ("a.jsonl[:2500]", "a.jsonl[2499:]", True),
        ("a.jsonl[:2500]", "a.jsonl[2500:]", False),
        ("a.jsonl[:2500]", "b.jsonl[:2500]", False),
    ],
)
def test_overlapping_rows_of_one_file_are_seen_in_both(one: str, other: str, shared: bool) -> None:
    assert share_rows(one, other) is share_rows(other, one) is shared
