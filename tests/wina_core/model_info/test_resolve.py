"""Finding models and texts on disk, and telling one version of a model from another."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.wina_core.tiny import tiny_folder
from wina_core.errors import WinaError
from wina_core.model_info import resolve
from wina_core.model_info.resolve import resolve_data, resolve_rotation
from wina_core.specs import EvaluationSpec, ModelSource, RotationSpec, TextSpec


def _source(location: object) -> ModelSource:
    return ModelSource(location=str(location))


@pytest.mark.parametrize("location", ["./models", "a/b/c", __file__])
def test_a_missing_folder_and_a_file_are_not_models(location: str) -> None:
    message = "is a file, but a model is a folder" if location == __file__ else "does not exist; check the path"
    with pytest.raises(WinaError, match=message):
        resolve.local_folder(_source(location))


def test_resolving_makes_one_source_of_many_spellings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_folder(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    resolved = resolve.resolve(_source("model"))
    assert resolved == resolve.resolve(_source(tmp_path / "model"))
    assert resolved.content_hash() == resolve.resolve(resolved).content_hash()
    assert len(resolved.fingerprint) == 16
    assert resolve.resolve(_source("owner/name")) == _source("owner/name")
    assert resolve.resolve(_source(resolve.demo_folder() / "model")) == resolve.resolve(_source("demo"))


@pytest.mark.parametrize(
    ("name", "sampled"),
    [("model.safetensors", True), ("config.json", False), ("tokenizer.json", False)],
)
def test_the_fingerprint_follows_weights_configuration_and_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, sampled: bool
) -> None:
    if sampled:
        monkeypatch.setattr(resolve, "_WHOLE", 0)
    tiny_folder(tmp_path)
    before = resolve.fingerprint(tmp_path)
    (tmp_path / "notes.txt").write_text("irrelevant")
    assert resolve.fingerprint(tmp_path) == before
    content = bytearray((tmp_path / name).read_bytes())
    content[-1] ^= 1
    (tmp_path / name).write_bytes(content)
    assert resolve.fingerprint(tmp_path) != before


def test_an_edited_text_or_file_of_matrices_is_another_rotation(tmp_path: Path) -> None:
    text, matrices = tmp_path / "a text.txt", tmp_path / "q.safetensors"
    text.write_text("one")
    save_file({"stream": torch.eye(4)}, matrices)
    spec = RotationSpec(matrices=str(matrices), text=TextSpec(source=str(text)))
    first = resolve_rotation(spec)
    assert resolve_rotation(spec) == resolve_rotation(first) == first
    text.write_text("two")
    second = resolve_rotation(spec)
    save_file({"stream": -torch.eye(4)}, matrices)
    third = resolve_rotation(spec)
    assert len({first.content_hash(), second.content_hash(), third.content_hash()}) == 3


def test_a_name_too_long_for_any_file_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / ("n" * 300))
    for look in (
        lambda: resolve.local_folder(_source(path)),
        lambda: resolve.text_file(path),
        lambda: resolve_rotation(RotationSpec(matrices=path)),
    ):
        with pytest.raises(WinaError, match=r"cannot be read \(File name too long\); check the path"):
            look()


def test_task_files_are_part_of_an_evaluations_identity_wherever_it_is_named_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tasks" / "own" / "own.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("task: own\n", encoding="utf-8")
    before = resolve_data(EvaluationSpec(task_folders=(str(tmp_path / "tasks"),)))
    monkeypatch.chdir(tmp_path)
    assert resolve_data(EvaluationSpec(task_folders=("tasks",))) == before
    file.write_text("task: own\nnum_fewshot: 5\n", encoding="utf-8")
    assert resolve_data(before).content_hash() != before.content_hash()
    with pytest.raises(WinaError, match=r"The task folder .*nowhere does not exist"):
        resolve_data(EvaluationSpec(task_folders=("nowhere",)))
