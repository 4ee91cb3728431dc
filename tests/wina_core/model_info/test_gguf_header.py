"""Headers of GGUF files are checked before anything large is read; bad ones are refused in a sentence."""

import struct
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import gguf
import pytest
from gguf.quants import _type_traits
from hypothesis import given
from hypothesis import strategies as st
from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

from wina_core.errors import WinaError
from wina_core.model_info import gguf_header
from wina_core.model_info.families import FAMILIES
from wina_core.model_info.gguf_header import GGUF_FAMILIES, read_gguf_header
from wina_core.model_info.resolve import fingerprint, gguf_file, resolve
from wina_core.specs import ModelSource

_NUMBERS = {"B": 0, "I": 4, "f": 6, "Q": 10}


def text(content: str | bytes) -> bytes:
    """A text of the format."""
    content = content.encode() if isinstance(content, str) else content
    return struct.pack("<Q", len(content)) + content


def field(key: str | bytes, kind: int, value: bytes) -> bytes:
    """A field of the metadata."""
    return text(key) + struct.pack("<I", kind) + value


def number(key: str, value: int) -> bytes:
    """A field with a number."""
    return field(key, 4, struct.pack("<I", value))


def array(kind: int, count: int, content: bytes = b"") -> bytes:
    """The value of an array that announces `count` elements."""
    return struct.pack("<IQ", kind, count) + content


def tensor(name: str | bytes, shape: Sequence[int], kind: int, offset: int) -> bytes:
    """A tensor's place; `shape` in the file's order."""
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


ARCHITECTURE = field("general.architecture", 8, text("llama"))
A = tensor("a", (32, 2), 3, 0)
"""Q4_1: 2 blocks of 20 bytes, and padding to 64."""
B = tensor("b", (8,), 0, 64)


def content(
    fields: Sequence[bytes] = (ARCHITECTURE,),
    tensors: Sequence[bytes] = (A, B),
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
    data: int = 96,
) -> bytes:
    """The bytes of a file."""
    header = struct.pack("<IQQ", version, *(counts or (len(tensors), len(fields))))
    header = b"GGUF" + header + b"".join((*fields, *tensors))
    return header + bytes(-len(header) % 32) + bytes(data)


def write(folder: Path, written: bytes, name: str = "model.gguf") -> Path:
    """Write a file."""
    (folder / name).write_bytes(written)
    return folder / name


def test_a_header_names_types_shapes_and_places(tmp_path: Path):
    fields = [ARCHITECTURE, field("x", 9, array(8, 2, text("a") + text("bc"))), field("y", 6, struct.pack("<f", 0.5))]
    header = read_gguf_header(write(tmp_path, content(fields)))
    assert header.metadata == {"general.architecture": "llama", "x": 2, "y": 0.5}
    assert [(one.type, one.shape, one.bytes) for one in header.tensors.values()] == [
        ("Q4_1", (2, 32), 40),
        ("F32", (8,), 32),
    ]
    assert header.types == "Q4_1 x 1, F32 x 1"
    assert "3.5 bits" in header.remark


def test_the_tables_are_those_of_the_libraries():
    for name in gguf_header._DEQUANTIZED[2:]:
        assert gguf.GGMLQuantizationType[name] in _type_traits, f"gguf does not dequantize {name}"
    supported = {name.replace("_", "") for name in GGUF_SUPPORTED_ARCHITECTURES}
    assert {name.replace("_", "") for name in GGUF_FAMILIES} <= supported
    assert set(GGUF_FAMILIES.values()) <= FAMILIES.keys()


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (b"GGUF", "cut off"),
        (content(version=1), "has version 1 of the GGUF format"),
        (content()[:-70], "the tensor 'a' ends at byte|the tensor 'b' ends at byte"),
        (content(counts=(2**62, 1)), "announces"),
        (content([ARCHITECTURE, ARCHITECTURE]), "has 'general.architecture' twice"),
        (content([ARCHITECTURE, field("x", 9, array(8, 2**60))]), "arrays of"),
        (content([ARCHITECTURE, field("x", 9, array(0, 2**22))]), "cut off"),
        (content([ARCHITECTURE, field("x", 99, b"")]), "has the type 99"),
        (content([ARCHITECTURE, field("x", 8, struct.pack("<Q", 2**31))]), "a text has"),
        (content([ARCHITECTURE, field(b"\xff\xfe", 4, bytes(4))]), "not UTF-8"),
        (content([ARCHITECTURE, field("a\nb", 4, bytes(4))]), "has the name"),
        (content([ARCHITECTURE, field("general.alignment", 4, struct.pack("<I", 24))]), "alignment is 24"),
        (content(tensors=[A, A]), "names the tensor 'a' twice"),
        (content(tensors=[A, tensor("b", (8,), 0, 32)]), "'b' begins at byte"),
        (content(tensors=[A, tensor("b", (2**32, 2**32), 0, 64)]), "has the shape"),
        (content(tensors=[A, tensor("b", (2**40,), 0, 64)]), "'b' ends at byte"),
        (content(tensors=[tensor("a", (33,), 3, 0)]), "of the type Q4_1 has the shape"),
        (content(tensors=[tensor("a", (32,), 9, 0)]), "type 9, which gguf cannot dequantize"),
        (content([ARCHITECTURE, field("split.count", 2, struct.pack("<H", 3))]), "one of several parts"),
        (content([field("general.architecture", 8, text("clip"))]), "architecture 'clip'"),
        (content([ARCHITECTURE, field("llama.expert_count", 4, struct.pack("<I", 8))]), "Mixture of Experts"),
        (content([ARCHITECTURE, field("llama.rope.scaling.type", 8, text("yarn"))]), "scaled rotary positions"),
        (content([ARCHITECTURE, number("llama.block_count", 3_000_000)]), "its 3000000 layers are more than the 1000"),
        (
            content([ARCHITECTURE, number("qwen3moe.expert_count", 2**31)]),
            "its 2147483648 experts are more than the 4096",
        ),
        (
            content([ARCHITECTURE, field("llama.block_count", 9, array(4, 1, struct.pack("<I", 3_000_000)))]),
            "num_hidden_layers is an array of 1 instead of a positive integer",
        ),
    ],
)
def test_damaged_and_hostile_headers_are_refused_in_a_sentence(tmp_path: Path, written: bytes, reason: str):
    file = write(tmp_path, written)
    tracemalloc.start()
    try:
        with pytest.raises(WinaError, match=reason):
            read_gguf_header(file)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4), st.floats(0, 1))
def test_changed_and_cut_headers_end_in_a_header_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[float, int]], cut: float
):
    fields = [ARCHITECTURE, field("x", 9, array(8, 2, text("a") + text("bc"))), field("y", 6, struct.pack("<f", 0.5))]
    written = bytearray(content(fields))
    for share, value in changes:
        written[int(share * len(written))] = value
    file = write(tmp_path_factory.mktemp("changed"), bytes(written[: int((0.5 + cut) * len(written))]))
    with suppress(WinaError):  # any other exception fails
        assert read_gguf_header(file).elements > 0


def test_a_file_and_its_folder_name_the_same_model(tmp_path: Path):
    file = write(tmp_path, content())
    (tmp_path / "README.md").write_text("no model")
    of_file, of_folder = (resolve(ModelSource(location=str(path))) for path in (file, tmp_path))
    assert of_file == of_folder == ModelSource(location=str(file), fingerprint=fingerprint(file))


def test_a_folder_with_several_files_asks_for_one_and_safetensors_come_first(tmp_path: Path):
    file, other = write(tmp_path, content(), "a.gguf"), write(tmp_path, content(), "b.GGUF")
    assert fingerprint(file) == fingerprint(other), "the same model by any name"
    with pytest.raises(WinaError, match=r"holds 2 GGUF files; open one of them, such as .*a\.gguf"):
        gguf_file(ModelSource(location=str(tmp_path)))
    (tmp_path / "model.safetensors").touch()
    assert gguf_file(ModelSource(location=str(tmp_path))) is None
    with pytest.raises(WinaError, match="llama-gguf-split --merge"):
        read_gguf_header(write(tmp_path, content(), "model-00001-of-00003.gguf"))
