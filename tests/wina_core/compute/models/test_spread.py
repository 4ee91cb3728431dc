"""Placement of a model's weights: on one device, or on all accelerators if no single one has room."""

from typing import Any

import pytest
import torch

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_folder
from wina_core.compute.models import loading
from wina_core.compute.models.loading import load_model, placement
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
from wina_core.specs import ModelSource


@pytest.fixture
def accelerators(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """As many as the test is given."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: request.param)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: request.param > 0)


CUDA = {"": torch.device("cuda")}
WARNING = 'warning: "spread" needs two accelerators, but there {} here.'


@pytest.mark.parametrize(
    ("accelerators", "name", "placed", "logged"),
    [
        (0, "auto", None, []),
        (0, "cpu", None, []),
        (0, "spread", None, [WARNING.format("are none")]),
        (1, "auto", CUDA, []),
        (1, "spread", CUDA, [WARNING.format("is one")]),
        (2, "auto", CUDA, []),
        (2, "cuda:1", {"": torch.device("cuda:1")}, []),
        (2, "spread", "auto", []),
    ],
    indirect=["accelerators"],
)
@pytest.mark.usefixtures("accelerators")
def test_weights_are_spread_where_there_are_two_accelerators(name: str, placed: object, logged: list[str]) -> None:
    reporter = RecordingReporter()
    assert placement(name, reporter) == placed
    assert reporter.lines == logged


@pytest.mark.parametrize("left", ["cpu", "disk"])
def test_layers_for_which_no_accelerator_has_room_are_refused(tmp_path, monkeypatch, left):
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
