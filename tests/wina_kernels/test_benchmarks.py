"""The benchmarks run and write what they measured. How fast anything is, is for their results to say, not for tests."""

import importlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.interpreter import DEVICE, runs

FOLDER = Path(__file__).parents[2] / "kernels" / "benchmarks"
SPREADS = ("wall_seconds", "cpu_seconds", "wall_ratio", "cpu_ratio")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the benchmarks' folder as they import each other."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


def test_every_benchmark_writes_its_measurements(
    benchmark: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The beginning of each text has tokens enough.
    monkeypatch.setattr("wina_core.compute.models.text_tokens._LONGEST", 1 << 16)
    benchmark("run").main(["all", "--toy", "--out", str(tmp_path)])
    files = sorted(tmp_path.iterdir())
    assert {"allocation-cpu.json", "calibration-cpu.json", "gating-cpu.json", "rotation-cpu.json"} <= {
        file.name for file in files
    }
    for file in files:
        content = json.loads(file.read_text(encoding="utf-8"))
        assert file.name == f"{content['benchmark']}-cpu.json"
        assert content["hardware"]
        assert {"python", "torch", "numpy"} <= set(content["versions"])
        assert content["comparisons"]
        for comparison in content["comparisons"]:
            check(comparison)
        if content["benchmark"] == "rotation":
            for comparison in content["comparisons"]:
                deviations = [timing["facts"]["logits_deviation"] for timing in comparison["timings"]]
                assert 0 < max(deviations) < 1.5 * deviations[0], "as exact as the peer"
        if content["benchmark"] == "allocation":
            naive, ours = content["comparisons"][0]["timings"]
            assert naive["facts"]["evaluations"] == ours["facts"]["evaluations"] > 10, "the same search"


def check(comparison: dict) -> None:
    """Whole, positive, in order, and compared with a peer that was measured beside it."""
    assert "threads" in comparison["setting"]
    assert comparison["repetitions"] >= 1
    peer, *others = comparison["timings"]
    assert peer["name"] == comparison["peer"]
    assert peer["wall_ratio"] == peer["cpu_ratio"] == {"median": 1.0, "p10": 1.0, "p90": 1.0}
    assert others
    for timing in (peer, *others):
        for spread in SPREADS:
            assert 0 < timing[spread]["p10"] <= timing[spread]["median"] <= timing[spread]["p90"]


def test_toy_sizes_never_replace_real_results(
    benchmark: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        benchmark("run").main(["gating", "--toy"])
    assert ended.value.code == 2
    assert "--out" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_its_benchmark_says_how_to_run_it(
    benchmark: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="There is no GPU") as ended:
        benchmark("run").main(["gpu"])
    assert not capsys.readouterr().out
    told = ended.value.code  # a text: Python writes it to stderr, and the exit code is 1
    assert isinstance(told, str)
    assert "\n" not in told
    assert "run: python kernels/benchmarks/run.py gpu." in told


@runs
def test_the_gpu_benchmark_goes_its_whole_way(
    benchmark: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton", reason="Triton ships for Linux alone")
    if DEVICE == "cpu":
        monkeypatch.setattr(benchmark("gpu"), "cache_bytes", lambda _: 2**20)
    file = tmp_path / "gpu.json"
    benchmark("run").main(["gpu", "--toy", "--out", str(file)])
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content["copy_gb_per_second"] > 0
    contenders = {(line["batch"], line["contender"]) for line in content["products"]}
    assert contenders == {
        *((1, name) for name in ("torch.mv", "F.linear", "teal", "wina", "split-k")),
        *((4, name) for name in ("F.linear", "teal", "wina")),
    }
    for line in content["products"]:
        assert 0 < line["milliseconds"]["p10"] <= line["milliseconds"]["median"] <= line["milliseconds"]["p90"]
        seconds = line["milliseconds"]["median"] / 1e3
        read = line["kept"] * line["inputs"] * line["outputs"] * 2
        assert line["gb_per_second"] == pytest.approx(read / seconds / 1e9)
        assert line["of_copy"] == pytest.approx(line["gb_per_second"] / content["copy_gb_per_second"])
        assert (line["kept"] == 0.5) == (line["sparsity"] == 0.5 and line["batch"] == 1)
        assert ("over_teal" in line) == (line["contender"] == "wina")
        assert ("over_split-k" in line) == (line["contender"] == "teal" and line["batch"] == 1)
    decoding = content["decoding"]
    assert decoding["speed_up"] > 0
    assert 0.2 < decoding["dropped"] < 0.8
    assert 1 < decoding["speed_up_allowed_by_bytes"] < 2
    assert [bar["wanted"] for bar in content["bars"]] == [1.03, 1.0, 1.8]


def test_the_bars_of_a_gpu_name_what_misses_them(benchmark: Callable[[str], Any]) -> None:
    pytest.importorskip("triton", reason="Triton ships for Linux alone")
    common = {"outputs": 5120, "inputs": 17920, "batch": 1, "dtype": "bfloat16"}
    lines = [
        {**common, "contender": "wina", "sparsity": 0.5, "of_copy": 0.8, "over_teal": 1.01},
        {**common, "contender": "wina", "sparsity": 0.25, "of_copy": 0.7, "over_teal": 1.04},
        {**common, "contender": "teal", "sparsity": 0.5, "of_copy": 0.8, "over_split-k": 0.9},
        {**common, "contender": "teal", "sparsity": 0.5, "batch": 4, "of_copy": 0.8, "over_split-k": 1.9},
    ]
    copy, teal, split_k = benchmark("gpu").product_bars(lines)
    assert (copy["measured"], copy["met"]) == (0.8, True)
    assert (teal["measured"], teal["met"], teal["missed"]) == (1.04, False, ["5120 x 17920, bfloat16, 25 %: 1.040"])
    assert (split_k["measured"], split_k["met"], split_k["points"]) == (0.9, True, 1)


class Held(TorchDispatchMode):
    """Within: the most bytes of tensors held at once beside `given`, whatever the allocator keeps. What a single
    operation needs while it computes, such as a decomposition's workspace, is not in it."""

    def __init__(self, given: Iterable[Tensor]) -> None:
        super().__init__()
        self.peak = 0
        self._given = {tensor.untyped_storage().data_ptr() for tensor in given}
        self._held: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in self._given:
                storage = tensor.untyped_storage()
                self._held[storage.data_ptr()] = StorageWeakRef(storage), storage.nbytes()
        self._held = {place: (storage, size) for place, (storage, size) in self._held.items() if not storage.expired()}
        self.peak = max(self.peak, sum(size for _, size in self._held.values()))
        return result


def test_a_free_rotation_holds_less_than_one_layer_in_float64_however_many_there_are(
    benchmark: Callable[[str], Any],
) -> None:
    """0.58 of a layer at this width."""
    models, route = benchmark("random_models"), benchmark("routes").ROUTES["global + heads"]
    peaks = []
    for layers in (2, 5):
        view = models.random_llama(models.Size(256, 704, layers, heads=8, kv_heads=8)).view
        with Held(view.model.parameters()) as held:
            route(view)
        assert 0.1 < held.peak / (8 * sum(view.layout.parameters[0])) < 0.7
        peaks.append(held.peak)
    assert peaks[0] == peaks[1]
