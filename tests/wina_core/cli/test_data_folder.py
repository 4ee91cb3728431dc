"""Texts of a data folder, which commands read in place of files."""

import json
from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from wina_core.jobs import AllocateJob, AllocateJointlyJob, CalibrateJob, Job, RotateJob
from wina_core.model_info.resolve import resolve_text
from wina_core.specs import TextSpec

SOURCE = "data:prose[0:3]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with the rows of `SOURCE`."""
    file = tmp_path / "data" / "prose" / "test.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps({"text": f"Row {row} of a story."}) + "\n" for row in range(5)))
    return tmp_path / "data"


def resolved(folder: Path, tokens: int) -> TextSpec:
    """Return the rows of `SOURCE` by the path of their file."""
    return resolve_text(TextSpec(source=f"{folder / 'prose' / 'test.jsonl'}[0:3]", tokens=tokens))


def test_commands_read_texts_of_the_data_folder(wina: Wina, folder: Path, planned: list[Job]) -> None:
    rotation = ("--rotation", "global", "--rotation-text", SOURCE, "--rotation-tokens", 64)
    text = ("--text", SOURCE, "--tokens", 128)
    bits = ("--bits", 4, "--quantizer", "gptq", "--bits-text", SOURCE, "--bits-tokens", 64)
    for words in (
        ("rotate", "demo", *rotation),
        ("calibrate", "demo", *text, *rotation),
        ("allocate", "demo", *text),
        ("allocate", "demo", *text, "--allocator", "joint", "--bits-held", 4.5, *bits),
    ):
        assert "option data-folder" in wina.fails(1, *words)
        wina.fails(1, *words, "--data-folder", folder)
    rotate, calibrate, alone, joint = planned
    assert isinstance(rotate, RotateJob)
    assert isinstance(calibrate, CalibrateJob)
    assert rotate.rotation.text == calibrate.rotation.text == resolved(folder, 64)
    assert isinstance(alone, AllocateJob)
    assert isinstance(joint, AllocateJointlyJob)
    texts = (calibrate.calibration.text, alone.plan.allocator.text, joint.spec.text)
    assert set(texts) == {resolved(folder, 128)}
    assert joint.spec.quantization.text == resolved(folder, 64)
