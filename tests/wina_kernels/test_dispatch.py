"""Arguments that the operations accept, and how the way to compute them is chosen and remembered."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import wina_kernels
from wina_kernels import backends, dispatch, reference, tuning
from wina_kernels.weights import QuantizedWeight

X, WEIGHT, SCALE = torch.randn(2, 6), torch.randn(6, 5), torch.rand(6)
CODES = torch.zeros(6, 5, dtype=torch.int8)


@pytest.fixture(autouse=True)
def _own_choices(tmp_path, monkeypatch):
    monkeypatch.setenv("WINA_HOME", str(tmp_path))
    tuning._file.cache_clear()
    monkeypatch.setattr(tuning, "_MEMORY", {})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"x": X.double()}, "float64"),
        ({"x": X.bfloat16()}, "x is bfloat16 and the weight float32"),
        ({"x": torch.randn(2, 7)}, r"\[2, 7\] has not the 6 inputs"),
        ({"x": X.to("meta")}, "x is on meta and the weight on cpu"),
        ({"weight_t": torch.randn(5, 6).t()}, "not contiguous"),
        ({"scale": torch.rand(5)}, r"scale is float32 \[5\]; it must be float32 \[6\]"),
        ({"threshold": -1.0}, "threshold is -1.0"),
        ({"weight_t": QuantizedWeight(CODES, torch.ones(1, 5), None, 3, 8)}, r"scale \[1, 5\].*must be \[2, 5\]"),
        (
            {"weight_t": QuantizedWeight(CODES.to(torch.uint8), torch.ones(1, 5), None, 6, 4)},
            r"codes \[6, 5\].*must be \[6, 3\]",
        ),
        ({"weight_t": QuantizedWeight(CODES.short(), torch.ones(1, 5), None, 6, 8)}, "codes are int16"),
        ({"weight_t": QuantizedWeight(CODES.t().contiguous().t(), torch.ones(1, 5), None, 6, 8)}, r"strides \[1, 6\]"),
        ({"weight_t": QuantizedWeight(CODES, torch.ones(1, 5), None, 0, 8)}, "group of 0 inputs"),
        ({"weight_t": QuantizedWeight(CODES, torch.ones(1, 5, device="meta"), None, 6, 8)}, "scale is on meta"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(changed, says):
    arguments = {"x": X, "weight_t": WEIGHT, "scale": SCALE, "threshold": 0.3, **changed}
    with pytest.raises(ValueError, match=says):
        wina_kernels.sparse_linear(**arguments)


def test_codes_have_a_choice_for_each_dtype_of_inputs(monkeypatch):
    cases = []
    monkeypatch.setattr(dispatch, "serves", lambda *_: True)
    monkeypatch.setattr(dispatch, "fastest", lambda _device, case, _ways: cases.append(case) or dispatch.DENSE)
    codes = QuantizedWeight(CODES, torch.ones(1, 5), None, 6, 8)
    for dtype in (torch.float32, torch.bfloat16):
        dispatch.chosen(X.to(dtype), codes, 0.5)
    assert len(set(cases)) == 2


@pytest.mark.parametrize("keep", [0, 7])
def test_an_impossible_number_to_keep_is_refused(keep):
    for call in (lambda: wina_kernels.top_k_linear(X, WEIGHT, SCALE, keep), lambda: dispatch.gate_top_k(X, None, keep)):
        with pytest.raises(ValueError, match="keep"):
            call()


@pytest.mark.parametrize("mask", [torch.ones(2, 6), torch.ones(6, dtype=torch.bool)])
def test_a_mask_of_another_shape_or_dtype_is_refused(mask):
    with pytest.raises(ValueError, match="mask is"):
        wina_kernels.masked_linear(X, WEIGHT, mask)


def test_an_unknown_backend_is_refused():
    with pytest.raises(ValueError, match='no backend "cuda"; choose one of reference, native, triton'):
        backends.load("cuda")


@pytest.mark.parametrize("rows", [1, 8, 9])
@pytest.mark.parametrize("way", [*backends.usable(torch.device("cpu")), dispatch.DENSE])
def test_whichever_way_is_chosen_the_result_is_the_reference(rows, way, monkeypatch):
    monkeypatch.setattr(dispatch, "fastest", lambda *_: way)
    x = torch.randn(rows, 6)
    for operation, argument in (("sparse_linear", 0.3), ("top_k_linear", 2)):
        y = getattr(wina_kernels, operation)(x, WEIGHT, SCALE, argument)
        torch.testing.assert_close(y, getattr(reference, operation)(x, WEIGHT, SCALE, argument))
    mask = torch.rand(rows, 6) > 0.5
    torch.testing.assert_close(wina_kernels.masked_linear(x, WEIGHT, mask), reference.masked_linear(x, WEIGHT, mask))


def test_the_fastest_way_is_measured_once_and_kept(monkeypatch):
    seconds = {"slow": 2.0, "fast": 1.0}
    measured = []
    monkeypatch.setattr(tuning, "_seconds", lambda ways, _device: measured.extend(ways) or seconds)
    cpu = torch.device("cpu")
    ways = {name: name for name in seconds}
    assert tuning.fastest(cpu, "case", lambda: ways) == "fast"
    assert tuning.fastest(cpu, "case", lambda: pytest.fail("measured again")) == "fast"
    monkeypatch.setattr(tuning, "_MEMORY", {})  # as a new process begins
    assert tuning.fastest(cpu, "case", lambda: pytest.fail("measured again")) == "fast"
    assert measured == ["slow", "fast"]
    (file,) = tuning.folder().iterdir()
    assert json.loads(file.read_text(encoding="utf-8")) == {"case": "fast"}


@pytest.mark.parametrize("content", ["[1]", '{"case": 3}', "\x00"])
def test_a_damaged_file_of_choices_is_measured_anew(content, monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.setattr(tuning, "_seconds", lambda ways, _: dict.fromkeys(ways, 1.0))
    file = tuning._file(cpu, torch.get_num_threads())
    file.parent.mkdir(parents=True)
    file.write_text(content, encoding="utf-8")
    assert tuning.fastest(cpu, "case", lambda: {"only": print}) == "only"
    assert json.loads(file.read_text(encoding="utf-8")) == {"case": "only"}


def test_choices_that_cannot_be_written_last_as_long_as_the_process(monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.setattr(tuning, "_seconds", lambda ways, _: dict.fromkeys(ways, 1.0))
    tuning.folder().parent.mkdir(parents=True)
    tuning.folder().write_text("a file in the folder's place")
    assert tuning.fastest(cpu, "case", lambda: {"only": print}) == "only"
    assert tuning.fastest(cpu, "case", lambda: pytest.fail("measured again")) == "only"


def test_a_way_that_is_hardly_faster_than_the_first_is_not_taken(monkeypatch):
    seconds = {"first": 1.0, "hardly": 0.97}
    monkeypatch.setattr(tuning, "_seconds", lambda *_: seconds)
    assert tuning.fastest(torch.device("cpu"), "case", lambda: {name: name for name in seconds}) == "first"


def test_what_another_process_has_decided_stays(monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.setattr(tuning, "_seconds", lambda ways, _: dict.fromkeys(ways, 1.0))
    tuning.fastest(cpu, "one", lambda: {"only": print})
    file = tuning._file(cpu, torch.get_num_threads())
    file.write_text('{"one": "only", "two": "theirs"}', encoding="utf-8")
    tuning.fastest(cpu, "three", lambda: {"only": print})
    assert json.loads(file.read_text(encoding="utf-8")) == {"one": "only", "two": "theirs", "three": "only"}


def test_the_processor_is_called_what_the_system_calls_its_model(monkeypatch):
    listed = "processor\t: 0\nmodel name\t: A chip: the fast one\n\nmodel name\t: Another\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: listed)
    assert tuning.processor() == "A chip: the fast one"


def test_triton_is_loaded_by_its_backend_alone_and_missed_in_a_sentence() -> None:
    program = """
import sys
sys.modules["triton"] = None
import wina_kernels.dispatch
try:
    import wina_kernels.gpu
except ImportError as error:
    print(error)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "kernels")}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("The Triton backend needs the package triton, 3.4 or newer")
