"""GGUF files by jobs of the engine: a rotated model is converted beside the file, and nothing else is left."""

import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.wina_core.cli.test_export_gguf import CONVERTER
from tests.wina_core.engine.in_process import compute, result_of
from tests.wina_core.tiny import tiny_folder
from wina_core.compute.gguf import convert
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.errors import Cancelled, WinaError
from wina_core.jobs import ExportGgufJob
from wina_core.records import GgufRecord
from wina_core.specs import ModelSource, RotationSpec

HEADS = RotationSpec(mode="none")


SLOW = """
import os, subprocess, time
from pathlib import Path
process = subprocess.Popen(["sleep", "60"])
Path("{started}.partial").write_text(str(process.pid))
os.rename("{started}.partial", "{started}")
time.sleep(60)
"""


class CancelledOnce(NullReporter):
    """A reporter whose user cancels once a file is there."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def check(self) -> None:
        if self._file.exists():
            raise Cancelled


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExportGgufJob:
    monkeypatch.setattr(convert, "find_spec", lambda _: None)
    converter = tmp_path / "convert_hf_to_gguf.py"
    converter.write_text(CONVERTER)
    model = ModelSource(location=str(tiny_folder(tmp_path / "model")))
    file = tmp_path / "files" / "rotated.gguf"
    return ExportGgufJob(model=model, rotation=HEADS, file=str(file), converter=str(converter), outtype="bf16")


def test_a_rotated_model_is_converted_from_a_folder_that_does_not_stay(job: ExportGgufJob) -> None:
    record = result_of(job)
    file = Path(job.file)
    assert file.read_text() == "GGUF rotated bf16"
    assert list(file.parent.iterdir()) == [file]
    assert record == GgufRecord(file=job.file, bytes=file.stat().st_size, perplexity=None)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_cancelled_export_leaves_no_file_and_no_process(job: ExportGgufJob, tmp_path: Path) -> None:
    started = tmp_path / "started"
    Path(job.converter).write_text(SLOW.format(started=str(started)))
    with pytest.raises(Cancelled):
        compute(job, CancelledOnce(started))
    assert list(Path(job.file).parent.iterdir()) == []
    deadline = time.monotonic() + 30  # a killed process is there until the system has taken it down
    while _runs(int(started.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rotation": RotationSpec(mode="per_layer")}, "needs residual shortcuts"),
        ({"file": "{folder}/config.json"}, "already exists"),
        ({"text": "demo:missing"}, "no demo text"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is_loaded(
    job: ExportGgufJob, changes: dict[str, object], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Session, "prepare")
    filled = {
        name: value.format(folder=job.model.location) if isinstance(value, str) else value
        for name, value in changes.items()
    }
    with pytest.raises(WinaError, match=reason):
        compute(job.model_copy(update=filled))
