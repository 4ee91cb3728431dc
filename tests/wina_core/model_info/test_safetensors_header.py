"""Headers of safetensors files that describe no tensors of the file are refused before a library maps it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from wina_core.errors import WinaError
from wina_core.model_info.safetensors_header import read_safetensors_header

A, B = (
    {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    {"dtype": "F16", "shape": [4], "data_offsets": [24, 32]},
)


def _write(path: Path, header: object, size: int = 32) -> Path:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(size))
    return path


def test_the_tensors_are_those_that_the_library_reads(tmp_path: Path) -> None:
    path = tmp_path / "some.safetensors"
    tensors = {"a": torch.ones(2, 3), "b": torch.zeros(0, 4), "c": torch.ones((), dtype=torch.bfloat16)}
    save_file(tensors, path, {"format": "pt"})
    entries = read_safetensors_header(path).tensors
    assert {name: entry.shape for name, entry in entries.items()} == {
        name: tuple(tensor.shape) for name, tensor in load_file(path).items()
    }
    assert [entries[name].bytes for name in "abc"] == [24, 0, 2]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"a": A, "b": B | {"data_offsets": [0, 8]}}, "'a' begins at byte 0 instead of 8"),
        ({"a": A, "b": B | {"data_offsets": [28, 36]}}, "'b' begins at byte 28 instead of 24"),
        ({"a": A, "b": B | {"data_offsets": [-8, 0]}}, "data_offsets"),
        ({"a": A | {"data_offsets": [24, 0]}}, "'a' begins at byte 24 instead of 0"),
        ({"a": A, "b": B | {"shape": [5]}}, r"'b' has 8 bytes, which do not fit its shape \[5\]"),
        ({"a": A, "b": B | {"dtype": "X"}}, "'b' has the dtype 'X', which is not supported"),
        ({"a": A}, "32 bytes|bytes instead of"),
        ("[1]", "damaged"),
        ("[" * 5000, "it is nested too deeply"),
        (f'{{"a": {json.dumps(A)}, "a": {json.dumps(A)}}}', "its header names a tensor twice"),
        ("{}", "holds no tensors"),
    ],
)
def test_a_header_that_does_not_fit_the_file_is_refused(tmp_path: Path, header: Any, reason: str) -> None:
    path = _write(tmp_path / "bad.safetensors", header)
    with pytest.raises(WinaError, match=reason) as refused:
        read_safetensors_header(path)
    assert "\n" not in str(refused.value)
