"""Exporting GGUF files from the Rotation page, against a view that only remembers."""

from pathlib import Path

import pytest
from wina_app.pages.rotation.controller import (
    EXPORT_CANCELLED,
    EXPORTED_SHORTCUTS,
    NO_CONVERTER,
    NO_MODEL,
    QUANTIZED,
    SHORTCUTS,
    RotationController,
)
from wina_app.pages.rotation.page import RotationPage

from tests.wina_app.fakes import Recorded, done, load, make_workbench, result
from tests.wina_app.stored_runs import SOURCE, shape, summary
from wina_core.jobs import ExportGgufJob
from wina_core.records import GgufRecord
from wina_core.records.plans import PerplexityPair
from wina_core.specs import AUTO_ROTATION, NO_ROTATION, RotationSpec

START = AUTO_ROTATION


@pytest.fixture
def llama_cpp(tmp_path, monkeypatch) -> Path:
    """A folder with a converter, which neither LLAMA_CPP nor the PATH names."""
    folder = tmp_path / "llama.cpp"
    folder.mkdir()
    (folder / "convert_hf_to_gguf.py").touch()
    monkeypatch.delenv("LLAMA_CPP", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return folder


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(RotationPage)
    controller = RotationController(workbench, view)
    yield controller, view, workbench, engine
    store.store.close()


def reason(view: Recorded) -> str:
    return next(args[1] for name, args, _ in reversed(view._calls) if name == "show_gguf")


def test_the_folder_of_llama_cpp_is_asked_for_once_and_remembered(bench, llama_cpp, tmp_path):
    controller, view, workbench, engine = bench
    load(workbench)
    controller.gguf.export(tmp_path / "model.gguf")
    assert view.last("show_notice") == NO_CONVERTER  # the dialog was cancelled
    view.returns(ask_llama_cpp=tmp_path)
    controller.gguf.export(tmp_path / "model.gguf")
    assert "There is no converter" in view.last("show_error")
    assert not engine.submitted
    assert not workbench.settings.llama_cpp
    view.returns(ask_llama_cpp=llama_cpp)
    for name in ("first.gguf", "second.gguf"):
        controller.gguf.export(tmp_path / name)
    assert len(view.calls("ask_llama_cpp")) == 3
    assert workbench.settings.llama_cpp == str(llama_cpp)
    assert engine.last.job == ExportGgufJob(
        model=SOURCE,
        rotation=START,
        file=str(tmp_path / "second.gguf"),
        converter=str(llama_cpp / "convert_hf_to_gguf.py"),
    )


def test_a_used_name_is_refused_and_the_end_of_the_job_is_said(bench, llama_cpp, tmp_path, monkeypatch):
    controller, view, workbench, engine = bench
    monkeypatch.setenv("LLAMA_CPP", str(llama_cpp))
    load(workbench)
    controller.choose(NO_ROTATION.model_dump())
    file = tmp_path / "model.gguf"
    file.touch()
    controller.gguf.export(file)
    assert "already exists" in view.last("show_error")
    assert not engine.submitted
    file.unlink()
    controller.gguf.export(file)
    assert engine.last.job.rotation == NO_ROTATION
    pair = PerplexityPair(text="text", tokens=8, transformers=10.0, llama_cpp=10.004, same_tokens=True)
    engine.answer(result(GgufRecord(file=str(file), bytes=2048, perplexity=pair)), done())
    assert view.last("show_saved") == file
    assert workbench.jobs[engine.last.job_id].summary.startswith(
        "model.gguf, 2.00 KiB; perplexity 10 in transformers, 10 in llama.cpp"
    )
    controller.gguf.export(file)
    engine.answer(done(cancelled=True))
    assert view.last("show_notice") == EXPORT_CANCELLED
    assert not view.calls("ask_llama_cpp")


def test_what_no_gguf_file_holds_disables_the_export_with_the_reason(bench, llama_cpp, tmp_path, monkeypatch):
    controller, view, workbench, engine = bench
    monkeypatch.setenv("LLAMA_CPP", str(llama_cpp))
    assert reason(view) == NO_MODEL
    load(workbench)
    assert not reason(view)
    controller.choose(RotationSpec(mode="per_site").model_dump())
    assert reason(view) == SHORTCUTS
    controller.gguf.export(tmp_path / "model.gguf")
    controller.choose(NO_ROTATION.model_dump())
    assert not reason(view)
    load(workbench, SOURCE.model_copy(update={"quantization": "int8"}))
    assert reason(view) == QUANTIZED
    rotated = shape().model_copy(update={"shortcuts": "per_site"})
    load(workbench, model=summary().model_copy(update={"shape": rotated, "rotations": ("none",)}))
    assert reason(view) == EXPORTED_SHORTCUTS
    assert not engine.submitted
