"""Texts as rows of tokens."""

from pathlib import Path

import pytest

from tests.wina_core.tiny import TEXT, tiny_text, tiny_tokenizer
from wina_core.compute.models.text_tokens import read_tokens, read_tokens_and_bytes
from wina_core.errors import WinaError
from wina_core.specs import TextSpec


def test_rows_are_spread_evenly_over_the_text(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()  # one token a character of this text
    blocks = [TEXT[start : start + 48] for start in range(0, len(TEXT) - 47, 48)]
    tokens = read_tokens(TextSpec(source=tiny_text(tmp_path), tokens=200, sequence=48), tokenizer)
    assert tokens.shape == (4, 48)
    expected = [blocks[row * len(blocks) // 4] for row in range(4)]
    assert [tokenizer.decode(row) for row in tokens] == expected


def test_byte_counts_add_up_to_the_text(tmp_path: Path) -> None:
    line = "naïve Ω → 🙂\n"
    length = len(line.encode())  # the tiny tokenizer has one token a byte
    spec = TextSpec(source=tiny_text(tmp_path, line * 60), tokens=20 * 2 * length, sequence=2 * length)
    counts = read_tokens_and_bytes(spec, tiny_tokenizer())[1]
    assert counts.shape == (20, 2 * length)
    assert counts.min() >= 0
    assert counts.sum(1).tolist() == [2 * length] * 20


def test_tokens_are_those_with_bytes_also_of_a_tokenizer_that_truncates(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.enable_truncation(16)
    spec = TextSpec(source=tiny_text(tmp_path), tokens=200, sequence=48)
    assert read_tokens(spec, tokenizer).equal(read_tokens_and_bytes(spec, tiny_tokenizer())[0])


def test_only_the_beginning_of_a_huge_text_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = TextSpec(source=tiny_text(tmp_path, TEXT), tokens=128, sequence=64)
    tokenizer = tiny_tokenizer()
    tokens = read_tokens(spec, tokenizer)
    tiny_text(tmp_path, TEXT + "something else" * 5000)
    assert not read_tokens(spec, tokenizer).equal(tokens)
    monkeypatch.setattr("wina_core.compute.models.text_tokens._LONGEST", len(TEXT))
    assert read_tokens(spec, tokenizer).equal(tokens)


@pytest.mark.parametrize(
    ("tokens", "sequence", "message"),
    [
        (4096, 64, "has 2,720 tokens, but 4,096 were requested; choose fewer tokens or a longer text"),
        (64, 128, "64 tokens do not fill one row of 128; choose more tokens or shorter rows"),
        (64, 16, "is not UTF-8; save it in that encoding"),
    ],
)
def test_texts_that_give_no_rows_are_refused(tmp_path: Path, tokens: int, sequence: int, message: str) -> None:
    text = Path(tiny_text(tmp_path))
    if "UTF-8" in message:
        text.write_bytes("é".encode("latin-1") * 500)
    with pytest.raises(WinaError, match=message):
        read_tokens(TextSpec(source=str(text), tokens=tokens, sequence=sequence), tiny_tokenizer())
