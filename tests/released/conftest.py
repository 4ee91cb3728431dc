"""The tiny models on which the oracle is checked and compared with the project."""

import pytest

from tests.released.samples import MODELS, Sample, sample


@pytest.fixture(scope="module")
def samples() -> dict[str, Sample]:
    return {name: sample(name) for name in MODELS}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, samples: dict[str, Sample]) -> Sample:
    return samples[request.param]
