"""Fixtures of the compute tests."""

import pytest

from tests.wina_core.tiny import tiny_text
from wina_core.specs import TextSpec


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path_factory.mktemp("text")), tokens=256, sequence=64)
