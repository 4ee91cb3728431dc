"""Texts as rows of tokens."""

from pathlib import Path

import pytest

from tests.wina_core.tiny import TEXT, tiny_text, tiny_tokenizer
from wina_core.errors import WinaError
from wina_core.specs import TextSpec
from wina_core.text import read_byte_counts, read_tokens


def test_rows_are_the_text_in_order(tmp_path: Path) -> None:
    spec = TextSpec(source=tiny_text(tmp_path), tokens=200, sequence=48)
    tokenizer = tiny_tokenizer()
    tokens = read_tokens(spec, tokenizer)
    assert tokens.shape == (4, 48)
    assert tokenizer.decode(tokens.flatten()) == TEXT[:192]


def test_byte_counts_add_up_to_the_text(tmp_path: Path) -> None:
    text = "naïve Ω → 🙂\n" * 60
    spec = TextSpec(source=tiny_text(tmp_path, text), tokens=256, sequence=32)
    counts = read_byte_counts(spec, tiny_tokenizer())
    characters = len(tiny_tokenizer().decode(read_tokens(spec, tiny_tokenizer()).flatten()))
    assert counts.shape == (8, 32)
    assert counts.min() >= 0
    assert counts.sum() == len(text[:characters].encode())


def test_a_long_text_gives_the_same_tokens_as_its_beginning(tmp_path: Path) -> None:
    short = TextSpec(source=tiny_text(tmp_path, TEXT), tokens=128, sequence=64)
    tokens = read_tokens(short, tiny_tokenizer())
    tiny_text(tmp_path, TEXT * 50)
    assert read_tokens(short, tiny_tokenizer()).equal(tokens)


@pytest.mark.parametrize(
    ("tokens", "sequence", "message"),
    [
        (4096, 64, "has 2,720 tokens, but 4,096 were asked for; ask for fewer tokens or give a longer text"),
        (64, 128, "64 tokens do not fill one row of 128; ask for more tokens or shorter rows"),
    ],
)
def test_impossible_shapes_are_refused(tmp_path: Path, tokens: int, sequence: int, message: str) -> None:
    spec = TextSpec(source=tiny_text(tmp_path), tokens=tokens, sequence=sequence)
    with pytest.raises(WinaError, match=message):
        read_tokens(spec, tiny_tokenizer())


def test_a_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("é".encode("latin-1") * 500)
    with pytest.raises(WinaError, match="is not UTF-8; save it in that encoding"):
        read_tokens(TextSpec(source=str(path), tokens=64, sequence=16), tiny_tokenizer())
