"""Exported rotated models: what loads them, and what happens when the disk or the folder is not as it should be."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from tests.wina_core.tiny import EXACT_MODES, FEW_KINDS, tiny_loaded, tiny_text, tiny_tokens
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.logits import relative_deviation
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate, save_rotated, shortcut_parameters
from wina_core.errors import WinaError
from wina_core.specs import ModelSource, RotationSpec, TextSpec


def _rotated(folder: Path, mode: str, family: str = "llama", dtype: torch.dtype = torch.float32) -> LoadedModel:
    loaded = tiny_loaded(family, tied=True, dtype=dtype)
    text = TextSpec(source=tiny_text(folder), tokens=256, sequence=64)
    rotate(loaded, RotationSpec.model_validate({"mode": mode, "text": text}), NullReporter())
    return loaded


def _load(folder: Path) -> LoadedModel:
    return load_model(ModelSource(location=str(folder)), NullReporter())


@pytest.mark.parametrize(
    ("family", "mode"), [("llama", "global"), *((kind, EXACT_MODES[kind][-1]) for kind in FEW_KINDS)]
)
def test_an_exported_model_comes_back_as_it_was(tmp_path: Path, mode: str, family: str) -> None:
    rotated = _rotated(tmp_path, mode, family)
    save_rotated(rotated, tmp_path / "exported")
    loaded = _load(tmp_path / "exported")
    assert loaded.model(tiny_tokens()).logits.equal(rotated.model(tiny_tokens()).logits)
    assert shortcut_parameters(loaded.model) == shortcut_parameters(rotated.model)
    assert (loaded.rotation, loaded.rotation_report) == (rotated.rotation, rotated.rotation_report)
    assert loaded.tokenizer("same").input_ids == rotated.tokenizer("same").input_ids
    save_rotated(loaded, tmp_path / "again")
    assert {path.name for path in (tmp_path / "again").iterdir()} == {
        path.name for path in (tmp_path / "exported").iterdir()
    }


@pytest.mark.parametrize("family", [family for family in FEW_KINDS if "global" in EXACT_MODES[family]])
def test_any_loader_gets_a_globally_rotated_model(tmp_path, family):
    dense = tiny_loaded(family, tied=True).model(tiny_tokens()).logits
    save_rotated(_rotated(tmp_path, "global", family), tmp_path / "exported")
    stock, info = AutoModelForCausalLM.from_pretrained(tmp_path / "exported", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert relative_deviation(stock(tiny_tokens()).logits.detach(), dense) < 1e-5
    assert not (tmp_path / "exported" / "README.md").exists()


def test_a_folder_with_shortcuts_warns_other_loaders(tmp_path: Path) -> None:
    save_rotated(_rotated(tmp_path, "per_site"), tmp_path / "exported")
    assert "Other loaders ignore them" in (tmp_path / "exported" / "README.md").read_text()
    _, info = AutoModelForCausalLM.from_pretrained(tmp_path / "exported", output_loading_info=True)
    assert not info["unexpected_keys"]


# ---- what is refused -------------------------------------------------------------------------------------------


def test_only_a_rotated_model_is_exported(tmp_path: Path) -> None:
    with pytest.raises(WinaError, match="has not been rotated; rotate it before exporting it"):
        save_rotated(tiny_loaded(), tmp_path / "exported")


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    rotated = _rotated(tmp_path, "global")
    with pytest.raises(WinaError, match="already exists and is not an empty folder; choose another name"):
        save_rotated(rotated, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    rotated = _rotated(tmp_path, "per_site")
    monkeypatch.setattr("wina_core.compute.rotation.transform.save_file", fail)
    with pytest.raises(WinaError, match=r"could not be written to .* \(.*No space left.*\); free some space or choose"):
        save_rotated(rotated, tmp_path / "exported")
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    save_rotated(_rotated(folder, "per_layer"), folder / "exported")
    return folder / "exported"


def _in_rotation(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = folder / "wina_rotation.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def _in_shortcut(folder: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    path = folder / "wina_shortcuts.safetensors"
    matrices = load_file(path)
    name = min(matrices)
    save_file(matrices | {name: change(matrices[name])}, path)


NEWER = r"damaged or was written by a newer version \(.+\); update the program or export"


@pytest.mark.parametrize(
    ("damage", "change", "reason"),
    [
        (None, "wina_shortcuts.safetensors", "lacks wina_shortcuts.safetensors, without which its model is wrong"),
        (None, "wina_rotation.json", "lacks wina_rotation.json, which its wina_shortcuts.safetensors needs"),
        (_in_rotation, lambda content: content | {"format_version": 2}, NEWER),
        (_in_rotation, lambda content: content | {"rotation": None}, NEWER),
        (_in_rotation, lambda content: content | {"from_the_future": 1}, NEWER),
        (
            _in_rotation,
            lambda content: content | {"shortcuts": [*content["shortcuts"], "layers.9.mlp"]},
            "disagree on layers.9.mlp; export the rotated model again",
        ),
        (_in_shortcut, lambda matrix: matrix.to(torch.int32), "is I32; export the rotated model again"),
        (_in_shortcut, lambda matrix: matrix.index_fill(0, torch.tensor([3]), torch.nan), "no finite numbers"),
        (_in_shortcut, lambda matrix: matrix[:5].contiguous(), "does not fit this model"),
    ],
)
def test_a_damaged_export_is_refused(tmp_path: Path, exported: Path, damage: Any, change: Any, reason: str) -> None:
    folder = tmp_path / "exported"
    shutil.copytree(exported, folder)
    if damage is None:
        (folder / change).unlink()
    else:
        damage(folder, change)
    with pytest.raises(WinaError, match=reason):
        _load(folder)


def test_an_export_has_the_permissions_of_the_umask(tmp_path: Path, exported: Path) -> None:
    (tmp_path / "usual").touch()
    modes = {file.stat().st_mode for file in exported.iterdir()}
    assert modes == {(tmp_path / "usual").stat().st_mode}
