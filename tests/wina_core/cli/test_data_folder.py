"""Texts of a data folder, which commands read in place of files."""

import json
from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from wina_core.errors import WinaError
from wina_core.jobs import AllocateJob, AllocateJointlyJob, CalibrateJob, Job, RotateJob
from wina_core.model_info.resolve import resolve_text
from wina_core.specs import QuantizationSpec, TextSpec

SOURCE = "data:prose[0:3]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with the rows of `SOURCE`."""
    file = tmp_path / "data" / "prose" / "test.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps({"text": f"Row {row} of a story."}) + "\n" for row in range(5)))
    return tmp_path / "data"


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that commands would run; each ends with an error."""
    found: list[Job] = []

    def remember(job: Job, *_: object, **__: object) -> None:
        found.append(job)
        raise WinaError("stopped")

    monkeypatch.setattr("wina_core.cli.model.run_recorded", remember)
    monkeypatch.setattr("wina_core.cli.planning.confirm_and_run", remember)
    return found


def resolved(folder: Path, tokens: int) -> TextSpec:
    """Return the rows of `SOURCE` by the path of their file."""
    return resolve_text(TextSpec(source=f"{folder / 'prose' / 'test.jsonl'}[0:3]", tokens=tokens))


def test_rotate_reads_a_text_of_the_data_folder(wina: Wina, folder: Path, jobs: list[Job]) -> None:
    wina.fails(1, "rotate", "demo", "--rotation-text", SOURCE, "--rotation-tokens", 64, "--data-folder", folder)
    (job,) = jobs
    assert isinstance(job, RotateJob)
    assert job.rotation.text == resolved(folder, 64)


def test_calibrate_reads_texts_of_the_data_folder(wina: Wina, folder: Path, jobs: list[Job]) -> None:
    rotation = ("--rotation", "global", "--rotation-text", SOURCE, "--rotation-tokens", 64)
    wina.fails(1, "calibrate", "demo", "--text", SOURCE, "--tokens", 128, *rotation, "--data-folder", folder)
    (job,) = jobs
    assert isinstance(job, CalibrateJob)
    assert job.calibration.text == resolved(folder, 128)
    assert job.rotation.text == resolved(folder, 64)


def test_allocate_reads_texts_of_the_data_folder(wina: Wina, folder: Path, jobs: list[Job]) -> None:
    text = ("--text", SOURCE, "--tokens", 128, "--data-folder", folder)
    wina.fails(1, "allocate", "demo", *text)
    bits = ("--bits", 4, "--quantizer", "gptq", "--bits-text", SOURCE, "--bits-tokens", 64)
    wina.fails(1, "allocate", "demo", *text, "--allocator", "joint", "--bits-held", 4.5, *bits)
    alone, joint = jobs
    assert isinstance(alone, AllocateJob)
    assert alone.plan.allocator.text == resolved(folder, 128)
    assert isinstance(joint, AllocateJointlyJob)
    assert joint.spec.text == resolved(folder, 128)
    assert isinstance(joint.spec.quantization, QuantizationSpec)
    assert joint.spec.quantization.text == resolved(folder, 64)


@pytest.mark.parametrize(
    "words", [("rotate", "demo", "--rotation-text"), ("calibrate", "demo", "--text"), ("allocate", "demo", "--text")]
)
def test_a_text_of_the_data_folder_needs_the_folder(wina: Wina, jobs: list[Job], words: tuple[str, ...]) -> None:
    assert "option data-folder" in wina.fails(1, *words, SOURCE)
    assert not jobs
