"""The native library: every instruction set of this processor, and the build."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from wina_kernels import reference
from wina_kernels.native import abi, build
from wina_kernels.native import operations as native
from wina_kernels.native.operations import PreparedWeight
from wina_kernels.selection import scores, threshold_mask, top_k_mask
from wina_kernels.weights import QuantizedWeight

from tests.wina_kernels.backend_checks import (
    Case,
    assert_product,
    cases,
    check_masked_linear,
    check_not_a_number,
    check_same_bits,
    check_sparse_linear,
    check_top_k_linear,
    check_unread_quantized_weights,
    check_unread_weights,
)

pytestmark = pytest.mark.skipif(abi.loaded() is None, reason="the native library is not built here")
FORMS = ("int6", "int3", "int2", "signed4", "mixed")
many = settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("check", [check_sparse_linear, check_top_k_linear, check_masked_linear])
@many
@given(case=cases("cpu", others=FORMS))
def test_what_is_kept_is_multiplied(check, case: Case) -> None:
    check(native, case)


@pytest.mark.usefixtures("instructions")
@settings(many, max_examples=8)
@given(case=cases("cpu", most_inputs=200, most_outputs=1200, others=FORMS))
def test_every_instruction_set_computes_the_product(case: Case) -> None:
    check_masked_linear(native, case)
    check_sparse_linear(native, case)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_every_instruction_set_gates_rows_as_the_masks_do(dtype: torch.dtype, step: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x, scale = torch.randn(40, 301, generator=generator), torch.rand(301, generator=generator)
    x = ((x / step).round() if step else x).to(dtype)  # rounded scores tie
    scale = None if step else scale
    score = scores(x, scale)
    for threshold, keep in ((0.5, 0), (0.5, 200), (-1.0, 100)):
        mask = threshold_mask(score, threshold, keep) if threshold >= 0 else top_k_mask(score, keep)
        gated, kept_counts = native.gate_rows(x, scale, threshold, keep, None)
        assert torch.equal(gated, x.masked_fill(~mask, 0))
        assert torch.equal(kept_counts, mask.sum(-1, dtype=torch.int32))


@pytest.mark.parametrize("check", [check_unread_weights, check_unread_quantized_weights, check_not_a_number])
def test_what_is_not_finite_shows_where_it_is_kept(check) -> None:
    check(native, "cpu")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e-38])
def test_inputs_that_cannot_be_rounded_are_multiplied_exactly(value: float) -> None:
    weight_t = QuantizedWeight.of(torch.full((4, 3), 5, dtype=torch.uint8), torch.ones(1, 3), None, 4, 4)
    y = native.masked_linear(torch.tensor([[value, 0.0, 0.0, 0.0]]), weight_t, torch.tensor([[True, False] * 2]))
    torch.testing.assert_close(y, torch.full((1, 3), 5 * value), equal_nan=True)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_the_same_input_gives_the_same_bits(threads, monkeypatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr("wina_kernels.native.abi._WORTH_A_THREAD", 1)
    check_same_bits(native, "cpu")


@settings(many, max_examples=30)
@given(case=cases("cpu", others=FORMS))
def test_gate_and_product_in_one_call_are_those_of_the_reference(case: Case) -> None:
    if not 0 < case.x.numel() <= 8 * case.x.shape[-1]:
        return
    scale = case.scale
    prepared = PreparedWeight(case.weight_t, scale)
    threshold = float(scores(case.x, scale).float().flatten().median())
    mask = reference.threshold_masks(case.x, scale, threshold)
    y, kept_count = prepared.above(case.x, threshold)
    assert kept_count == int(mask.sum())
    assert_product(y, case, mask, rounds=True)
    keep = 1 + (case.x.shape[-1] - 1) // 2
    mask = threshold_mask(scores(case.x, scale), threshold, keep)
    y, kept_count = prepared.above(case.x, threshold, keep)
    assert kept_count == int(mask.sum())
    assert_product(y, case, mask, rounds=True)
    y, kept_count = prepared.top_k(case.x, keep)
    assert kept_count == keep * case.x.numel() // case.x.shape[-1]
    assert_product(y, case, reference.top_k_masks(case.x, scale, keep), rounds=True)


@pytest.mark.parametrize("x", [torch.zeros(1, 5), torch.zeros(1, 4).bfloat16()])
def test_an_input_that_does_not_fit_the_prepared_weight_is_refused(x: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"does not fit 4 inputs in torch\.float32"):
        PreparedWeight(torch.zeros(4, 3), None).top_k(x, 2)


def test_the_library_can_be_switched_off() -> None:
    code = "from wina_kernels.native import abi; print(abi.loaded(), abi.instructions())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"WINA_NATIVE": "0", "PYTHONPATH": str(Path(abi.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "None None\n"


def test_without_a_compiler_the_build_says_what_to_install(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda _: None)
    assert build.main() == 1
    error = capsys.readouterr().err
    assert "products run in PyTorch" in error
    assert "install g++, clang++ or the Python package ziglang" in error
    assert not list(tmp_path.iterdir())


def test_the_compiler_is_an_installed_one_or_else_ziglangs(monkeypatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: name == "ziglang")
    monkeypatch.setattr(build.shutil, "which", lambda name: f"/usr/bin/{name}" if name == "clang++" else None)
    assert build.compiler() == ["clang++"]
    monkeypatch.setenv("CXX", " ")
    assert build.compiler() == ["clang++"], "as if it were not set"
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    assert build.compiler() == [sys.executable, "-m", "ziglang", "c++", "-mcpu=baseline"]


def test_a_missing_library_is_reported_with_its_remedy_unless_it_is_switched_off(monkeypatch) -> None:
    assert abi.missing() == ""
    monkeypatch.setattr(abi, "loaded", lambda: None)
    assert abi.missing().endswith(f"ziglang, then run: {sys.executable} -m wina_kernels.native.build")
    monkeypatch.setenv("WINA_NATIVE", "0")
    assert abi.missing() == ""


def test_a_compilers_error_is_told_in_a_line_and_leaves_nothing(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setattr(build, "_FLAGS", ("--no-such-flag",))
    with pytest.raises(OSError, match=r"the compiler stopped at: .*no-such-flag"):
        build.build()
    assert not list(tmp_path.iterdir())
