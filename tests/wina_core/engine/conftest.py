"""A tiny model and a text, in a home of their own."""

from pathlib import Path

import pytest

from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.specs import ModelSource, TextSpec


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSource:
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "home"))
    return ModelSource(location=str(tiny_folder(tmp_path / "model")))


@pytest.fixture
def text(tmp_path: Path) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)
