"""Folders that a command has another machine write."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from wina_core.cli.places import choose_machines, output_location
from wina_core.errors import WinaError
from wina_core.remote.machines.registry import save_machine
from wina_core.specs import ModelSource
from wina_core.specs.machine import Machine

HERE, THERE = ModelSource(location="demo"), ModelSource(location="gpu:/models/llama")


@pytest.fixture(autouse=True)
def gpu(home: Path) -> Iterator[None]:  # noqa: ARG001 - sets WINA_HOME
    save_machine(Machine(name="gpu", destination="gpu"))
    yield
    choose_machines(None)


@pytest.mark.parametrize(
    ("model", "machines", "folder", "location"),
    [
        (HERE, [], "out", str(Path("out").absolute())),
        (HERE, ["local"], "out", str(Path("out").absolute())),
        (HERE, ["gpu"], "gpu:/out", "gpu:/out"),
        (THERE, [], "gpu:~/out", "gpu:~/out"),
    ],
)
def test_a_folder_lies_where_it_is_computed(
    model: ModelSource, machines: list[str], folder: str, location: str
) -> None:
    choose_machines(machines)
    assert output_location(Path(folder), model) == location


@pytest.mark.parametrize(
    ("model", "machines", "folder", "said"),
    [
        (HERE, [], "gpu:/out", "add --machine gpu"),
        (THERE, [], "out", "name it as gpu:/path or gpu:~/path, such as gpu:~/out"),
        (HERE, ["gpu", "local"], "gpu:/out", "One machine writes the folder"),
    ],
)
def test_a_folder_elsewhere_is_refused(model: ModelSource, machines: list[str], folder: str, said: str) -> None:
    choose_machines(machines)
    with pytest.raises(WinaError, match=said):
        output_location(Path(folder), model)
