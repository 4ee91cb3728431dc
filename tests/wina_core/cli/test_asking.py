"""A command names what it would compute first, and asks on a terminal where that takes long."""

from types import SimpleNamespace

import pytest

from tests.wina_core.engine.engine_events import DEMO
from wina_core.cli import asking
from wina_core.engine.products import MissingProduct
from wina_core.engine.protocol import InspectJob, RotateJob
from wina_core.errors import WinaError
from wina_core.specs import RotationSpec

JOB = InspectJob(model=DEMO)
ROTATION = MissingProduct(
    "rotation", "global", RotateJob(model=DEMO, rotation=RotationSpec()), seconds=125.0, begun=True
)


@pytest.fixture(params=[True, False], ids=["terminal", "pipe"])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(asking, "missing_products", lambda _: (ROTATION,))
    stream = SimpleNamespace(isatty=lambda: request.param)
    monkeypatch.setattr(asking, "sys", SimpleNamespace(stdin=stream, stderr=stream))
    return bool(request.param)


@pytest.mark.parametrize("answer", [True, False])
def test_a_long_product_is_named_and_asked_about_on_a_terminal(
    terminal: bool, answer: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(asking.typer, "confirm", lambda text, **_: asked.append(text) or answer)
    if terminal and not answer:
        with pytest.raises(WinaError):
            asking.announce_products(JOB)
    else:
        asking.announce_products(JOB)
    assert bool(asked) == terminal
    assert "rotation global (took 2:05 before, continues where it was interrupted)" in capsys.readouterr().err
