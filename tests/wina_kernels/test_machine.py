"""What the machine and its packages are called."""

import platform
from pathlib import Path

import pytest
from wina_kernels import tuning


def test_the_processor_is_called_what_the_system_calls_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "processor\t: 0\nmodel name\t: A chip: the fast one\n\nmodel name\t: Another\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: listed)
    assert tuning.processor() == "A chip: the fast one"


@pytest.mark.parametrize(("told", "name"), [("i386", "i386"), ("", "arm64")])
def test_a_processor_of_no_model_name_is_called_by_its_architecture(
    told: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(platform, "processor", lambda: told)
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert tuning.processor() == name
