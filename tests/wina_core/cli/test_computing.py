"""A command names what it would compute first, and asks on a terminal where that takes long."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Never

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.engine.engine_events import DEMO
from tests.wina_core.tiny import tiny_folder
from wina_core.api import running
from wina_core.api.studies import open_study
from wina_core.cli import makers
from wina_core.cli.makers import confirm_products, machines_of
from wina_core.compute.session.environment import environment
from wina_core.errors import WinaError
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.jobs import InspectJob, RotateJob
from wina_core.jobs.planning import MissingProduct
from wina_core.records import UnitRecord
from wina_core.remote.registry import save_machine
from wina_core.specs import FIDELITY, RotationSpec
from wina_core.specs.machine import LOCAL, Machine
from wina_core.store import Store
from wina_core.studies.expand import expand

JOB = InspectJob(model=DEMO)
ROTATION = MissingProduct(
    "rotation", "global", RotateJob(model=DEMO, rotation=RotationSpec()), seconds=125.0, begun=True
)


@pytest.fixture(params=[True, False], ids=["terminal", "pipe"])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(running, "missing_products", lambda _: (ROTATION,))
    stream = SimpleNamespace(isatty=lambda: request.param)
    monkeypatch.setattr(makers, "sys", SimpleNamespace(stdin=stream, stderr=stream))
    return bool(request.param)


def test_a_machine_is_known_and_this_computer_alone_is_none() -> None:
    save_machine(Machine(host="gpu"))
    assert machines_of(["gpu", LOCAL, "gpu"]) == ("gpu", LOCAL)
    assert machines_of([LOCAL]) == machines_of(None) == ()
    with pytest.raises(WinaError, match="cpu"):
        machines_of(["cpu"])


@pytest.mark.parametrize("answer", [True, False])
def test_a_long_product_is_named_and_asked_about_on_a_terminal_unless_answered_before(
    terminal: bool, answer: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(makers.typer, "confirm", lambda text, **_: asked.append(text) or answer)
    if terminal and not answer:
        with pytest.raises(WinaError):
            confirm_products(JOB, (), yes=False)
    else:
        confirm_products(JOB, (), yes=False)
    assert bool(asked) == terminal
    confirm_products(JOB, (), yes=True)
    assert len(asked) == terminal
    assert "rotation global (took 2:05 before, continues where it was interrupted)" in capsys.readouterr().err
    confirm_products(JOB, ("gpu",), yes=False)
    assert capsys.readouterr().err == "", "nothing is known of what another machine computes first"


STUDY = """
name = "tiny"
models = [{{ location = "{model}" }}]
sparsities = [0.5]
configurations = [{{ method = {{ name = "wina" }} }}]
evaluation = {{ tasks = [], fidelity = {{ tokens = 64, sequence = 64 }} }}
"""


def test_what_memory_does_not_hold_is_said_before_the_work(
    wina: Wina, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> Never:
        raise WinaError("It has begun.")

    monkeypatch.setenv(MEMORY_VARIABLE, "1T")  # so that the flag's is forgotten after the test
    monkeypatch.setattr("wina_core.engine.server.run_job.run_job", stop)
    model = tiny_folder(tmp_path / "model")
    announced, begun, _ = wina("calibrate", model, "--memory", "1K")[2].partition("It has begun.")
    assert begun
    assert f"The weights of {model} take" in announced


def test_an_estimate_adds_up_how_long_equal_measurements_took(wina: Wina, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(model=tiny_folder(tmp_path / "model")).replace("[0.5]", "[0.5, 0.6, 0.7]"))
    assert json.loads(wina.succeeds("study", "estimate", study, "--json"))[0]["basis"] == "unknown"
    opened = open_study(str(study), {})
    first, *_ = runs = expand(opened)
    with Store() as store:
        store.save_study(opened, runs)
        store.begin_run(first.content_hash(), environment())
        store.record_unit(UnitRecord(run=first.content_hash(), unit=FIDELITY, metrics=(), seconds=30.0))
    code, out, err = wina("study", "estimate", study, "--json")
    assert (code, json.loads(out)) == (0, [{"measurement": FIDELITY, "seconds": 30.0, "basis": "stored"}])
    assert "2 measurements are missing: about 60 seconds." in err
