"""Fixtures of the compute tests."""

from collections.abc import Iterator

import pytest

from tests.wina_core.tiny import tiny_text
from wina_core.specs import TextSpec


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path_factory.mktemp("text")), tokens=256, sequence=64)


@pytest.fixture(autouse=True, scope="module")
def small_measurements() -> Iterator[None]:
    """Read the beginning of the demo's texts alone, which every rotation and quantization is measured on, and choose
    kernels without a cold cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wina_core.compute.models.text_tokens._LONGEST", 1 << 15)
        patch.setattr("wina_kernels.tuning._CACHE", 1 << 10)
        yield
