"""The tiny models on which the oracle is checked and compared with the project."""

import pytest

from tests.released.readings import Texts, shared_sample, texts
from tests.released.samples import MODELS, Sample


@pytest.fixture(scope="module", name="texts")
def texts_of_all(tmp_path_factory: pytest.TempPathFactory) -> Texts:
    return texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Sample:
    return shared_sample(request.param)
