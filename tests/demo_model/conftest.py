"""The splits of the standard library, which take seconds to build."""

import pytest
from demo_model import corpus


@pytest.fixture(scope="session")
def splits() -> dict[corpus.Split, list[corpus.Document]]:
    return corpus.load()
