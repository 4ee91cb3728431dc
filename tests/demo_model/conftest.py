"""The splits of the standard library, which take seconds to build."""

import pytest
from demo_model import corpus

import wina_core.compute.models  # noqa: F401 - else these tests, the first, load what all others keep transformers from


@pytest.fixture(scope="session")
def splits() -> dict[corpus.Split, list[corpus.Document]]:
    return corpus.load()
