"""Where a model's weights are put: one device, or all accelerators for one that is too large for any of them."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.wina_core.tiny import tiny_folder, tiny_tokens
from wina_core.compute.models import loading
from wina_core.compute.models.loading import load_model, placement
from wina_core.compute.reporter import Level, NullReporter
from wina_core.errors import WinaError
from wina_core.specs import ModelSource


class Told(NullReporter):
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, level: Level, text: str) -> None:
        self.lines.append(f"{level}: {text}")


@pytest.fixture
def accelerators(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """As many as the test is given."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: request.param)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: request.param > 0)


CUDA = {"": torch.device("cuda")}
TOLD = 'warning: "spread" needs two accelerators, but there {} here.'


@pytest.mark.parametrize(
    ("accelerators", "name", "placed", "told"),
    [
        (0, "auto", None, []),
        (0, "cpu", None, []),
        (0, "spread", None, [TOLD.format("are none")]),
        (1, "auto", CUDA, []),
        (1, "spread", CUDA, [TOLD.format("is one")]),
        (2, "auto", CUDA, []),
        (2, "cuda:1", {"": torch.device("cuda:1")}, []),
        (2, "spread", "auto", []),
    ],
    indirect=["accelerators"],
)
@pytest.mark.usefixtures("accelerators")
def test_weights_are_spread_where_there_are_two_accelerators(name: str, placed: object, told: list[str]) -> None:
    reporter = Told()
    assert placement(name, reporter) == placed
    assert reporter.lines == told


def test_a_model_is_loaded_as_usual_where_there_is_nothing_to_spread_it_over(tmp_path: Path) -> None:
    if torch.cuda.device_count() > 1:
        pytest.skip("here it would be spread")
    folder, reporter = str(tiny_folder(tmp_path)), Told()
    spread = load_model(ModelSource(location=folder, device="spread"), reporter)
    usual = load_model(ModelSource(location=folder), NullReporter())
    ids = tiny_tokens().to(usual.device)
    assert torch.equal(spread.model(ids).logits, usual.model(ids).logits)
    assert len(reporter.lines) == 1


@pytest.mark.parametrize("left", ["cpu", "disk"])
def test_layers_for_which_no_accelerator_has_room_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    read = loading.AutoModelForCausalLM.from_pretrained

    def from_pretrained(*args: Any, **kwargs: Any) -> Any:
        assert kwargs["device_map"] == "auto"
        model, info = read(*args, **kwargs | {"device_map": None})
        model.hf_device_map = {"model.embed_tokens": 0, "model.layers.2": left}
        return model, info

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", from_pretrained)
    source = ModelSource(location=str(tiny_folder(tmp_path)), device="spread")
    with pytest.raises(WinaError, match="does not fit into the memory of all accelerators together; choose a smaller"):
        load_model(source, NullReporter())
