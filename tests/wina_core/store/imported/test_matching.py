"""A file is about the model that the user names, or is refused."""

from pathlib import Path

import pytest

from wina_core.errors import WinaError
from wina_core.model_info.cost.describe import check_source
from wina_core.specs import ModelSource
from wina_core.store.imported.candidate import check_model, read_import

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def summary():
    return check_source(ModelSource(location="demo"))[1]


def altered(name, **changes):
    file, _ = read_import(DATA / name)
    return file.model_copy(update={"points": tuple(point.model_copy(update=changes) for point in file.points)})


@pytest.mark.parametrize("name", ["bench.json", "kl.log", "lm_eval.json", "table.csv"])
def test_results_on_the_model_pass(name, summary):
    check_model(altered(name), "demo", summary)


def test_a_head_that_is_counted_apart_from_its_embedding_passes(summary):
    check_model(altered("kl.log", parameters=summary.parameters + 4096 * 256), "demo", summary)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"parameters": 6.7e6}, "has 6,700,000 weights, not 6,590,720"),
        ({"parameters": 1.1e9}, "has 1,100,000,000 weights"),
        ({"architecture": "qwen2"}, 'has the architecture "qwen2", not "llama"'),
    ],
)
def test_another_number_of_weights_or_architecture_is_refused(changes, reason, summary):
    with pytest.raises(WinaError, match=r'kl\.log is not about the model "demo"') as error:
        check_model(altered("kl.log", **changes), "demo", summary)
    assert reason in str(error.value)
