"""The public API: cheap to import, examples that are true, and the command line's own numbers."""

import ast
import doctest
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.hooks import RemovableHandle

import wina_core
from tests.wina_core.conftest import Wina
from wina_core.api.model import Model
from wina_core.api.session import in_job
from wina_core.specs import RotationSpec

FUNCTIONS = [name for name in wina_core.__all__ if name not in ("WinaError", "__version__", "Model")]
LONGEST = ("allocate", "allocate_jointly", "calibrate", "measure", "quantize", "rotate", "run_study")
TOKENS = 512


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api") / "results.sqlite"


@pytest.fixture(scope="module")
def model(database: Path) -> Model:
    return wina_core.open_model("demo", dtype="float32", database=database)


def test_importing_loads_nothing_else() -> None:
    program = "import sys; known = {*sys.modules}; import wina_core; dir(wina_core); print(*({*sys.modules} - known))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["wina_core"]


def test_every_public_name_is_there_and_typed() -> None:
    stub = ast.parse(Path(wina_core.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    typed = [alias.name for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(typed) == sorted(wina_core.__all__)
    assert all(getattr(wina_core, name).__doc__ for name in typed)
    with pytest.raises(AttributeError):
        _ = wina_core.no_such_name  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.nightly if each in LONGEST else ()) for each in FUNCTIONS],
)
def test_examples_are_true(name: str) -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(wina_core, name), name, globs={})
    assert example.examples
    report: list[str] = []
    doctest.DocTestRunner().run(example, out=report.append)
    assert not report, "".join(report)


def test_numbers_are_those_of_the_command_line(model: Model, database: Path, wina: Wina) -> None:
    found = wina_core.measure(model, np.float32(0.5), tokens=TOKENS)
    options = ("--model", "demo", "--dtype", "float32", "--sparsity", 0.5, "--tokens", TOKENS, "--database", database)
    code, _, said = wina("eval", *options)
    assert code == 0
    assert "3 of 3 measurements are stored and reused" in said
    assert wina_core.query_results(database=database).equals(found)
    runs = wina_core.query_results(table="runs", database=database)
    assert runs["original kl"].tolist() == found.query("task == 'original' and metric == 'kl'").value.tolist()
    assert wina_core.heatmap_figure(found.run[0][:10], database=database).axes


def test_a_gated_model_is_left_dense_and_measured_by_nobody(model: Model) -> None:
    with wina_core.gate(model, 0.5), pytest.raises(wina_core.WinaError):
        wina_core.measure(model, 0.5, tokens=TOKENS)
    with wina_core.gate(model, 0.5), pytest.raises(wina_core.WinaError), wina_core.gate(model, 0.5):
        pass
    with pytest.raises(ZeroDivisionError), wina_core.gate(model, 0.5):
        raise ZeroDivisionError
    with wina_core.gate(model, 0.25) as gates:
        model.model(model.tokenizer("A list is", return_tensors="pt").input_ids)
    assert gates.gated_sparsity == pytest.approx(0.25, abs=0.01)


def test_threads_neither_gate_what_another_computes_with_nor_compute_with_what_another_gates(model: Model) -> None:
    entered, leave = threading.Event(), threading.Event()

    def gated() -> None:
        with wina_core.gate(model, 0.5):
            entered.set()
            leave.wait()

    thread = threading.Thread(target=gated)
    with in_job():
        thread.start()
        assert not entered.wait(0.2)
    assert entered.wait(60)
    with pytest.raises(wina_core.WinaError, match="A model is gated now"):
        wina_core.measure(model, 0.5, tokens=TOKENS)
    leave.set()
    thread.join()
    assert len(wina_core.measure(model, 0.5, tokens=TOKENS))


def test_a_model_that_its_user_changed_is_measured_by_nobody(model: Model) -> None:
    layer, mlp = model.model.model.layers[3], model.model.model.layers[3].mlp
    handles: list[RemovableHandle] = []
    for change, undo in (
        (lambda: handles.append(layer.register_forward_hook(print)), lambda: handles.pop().remove()),
        (lambda: setattr(layer, "mlp", torch.nn.Sequential(mlp)), lambda: setattr(layer, "mlp", mlp)),
        (lambda: setattr(mlp, "forward", mlp.forward), lambda: delattr(mlp, "forward")),
        (layer.train, layer.eval),
    ):
        change()
        with pytest.raises(wina_core.WinaError, match=r"The module model\.layers\.3.* of demo is not as it was loaded"):
            wina_core.calibrate(model, tokens=TOKENS)
        undo()
    assert len(wina_core.calibrate(model, tokens=512))


def test_bad_values_are_one_sentence(model: Model, tmp_path: Path) -> None:
    rotated = Model(model.source, RotationSpec())
    for call in (
        lambda: wina_core.measure(model, 1.5),
        lambda: wina_core.quantize(model, 5, "rtn"),
        lambda: wina_core.rotate(rotated, "global"),
        lambda: wina_core.allocate_jointly(model),
        lambda: wina_core.export_model(model, tmp_path / "rotated"),
    ):
        with pytest.raises(wina_core.WinaError) as error:
            call()
        assert str(error.value).endswith(".")


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        (
            "open_model",
            {"location": None},
            "location: it should be a valid string or an instance of PathLike",
        ),
        ("measure", {"model": "demo"}, "model: it should be an instance of Model, not 'demo'."),
        ("measure", {"sparsity": []}, "sparsity: it should name at least one fraction or plan."),
        ("measure", {"tasks": "arc_easy"}, "tasks: it should be a list, not one text; write .'arc_easy'."),
        ("measure", {"fidelity": False}, "Nothing would be measured; .*the options fidelity and original"),
        ("gate", {"dense_prefix": 2}, "dense_prefix: it should be less than 1, not 2."),
        ("frontier_figure", {"results": 3}, "results: it should be a DataFrame, as measure returns, not 3."),
        ("heatmap_figure", {"shown": "0123"}, 'No run begins with "0123"; the column run of query_results'),
    ],
)
def test_a_bad_argument_is_named(name: str, given: dict[str, object], sentence: str, model: Model) -> None:
    function = getattr(wina_core, name)
    needed = {"model": model} if name in ("measure", "gate") else {}
    with pytest.raises(wina_core.WinaError, match=f"^{sentence}"):
        function(**needed | given)
