"""The benchmarks run and write what they measured. How fast anything is, is for their results to say, not for tests."""

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.interpreter import runs
from wina_core.specs import MethodSpec, Selection

FOLDER = Path(__file__).parents[2] / "kernels" / "benchmarks"
SPREADS = ("wall_seconds", "cpu_seconds", "wall_ratio", "cpu_ratio")


@pytest.mark.parametrize("name", ["allocation", pytest.param("all", marks=pytest.mark.nightly)])
def test_a_benchmark_writes_its_measurements(
    benchmark: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # The beginning of each text has tokens enough.
    monkeypatch.setattr("wina_core.compute.models.text_tokens._LONGEST", 1 << 16)
    run = benchmark("run")
    run.main([name, "--toy", "--out", str(tmp_path if name == "all" else tmp_path / f"{name}-cpu.json")])
    files = sorted(tmp_path.iterdir())
    assert {file.name for file in files} == {
        f"{benchmark_name}-cpu.json" for benchmark_name in (run.BENCHMARKS if name == "all" else [name])
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
    peer, *compared = comparison["timings"]
    assert peer["name"] == comparison["peer"]
    assert peer["wall_ratio"] == peer["cpu_ratio"] == {"median": 1.0, "p10": 1.0, "p90": 1.0}
    assert compared
    for timing in (peer, *compared):
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
    message = ended.value.code  # a text: Python writes it to stderr, and the exit code is 1
    assert isinstance(message, str)
    assert "\n" not in message
    assert "run: python kernels/benchmarks/run.py gpu." in message


@pytest.mark.nightly
@runs
def test_the_gpu_benchmark_goes_its_whole_way(
    benchmark: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process: each part's own would only import everything again."""
    pytest.importorskip("triton", reason="Triton ships for Linux alone")
    monkeypatch.setattr("wina_core.compute.models.text_tokens._LONGEST", 1 << 16)
    gpu = benchmark("gpu")

    def in_process(name: str, seconds: float, _: float, toy: bool, earlier: dict) -> tuple[dict, str]:
        measured = list(gpu.measure(name, seconds, earlier.get("device", {}).get("copy_gb_per_second"), toy))[-1]
        return measured, "it fell over" if name == "evaluation" else ""

    monkeypatch.setattr(gpu, "run_part", in_process)
    file = tmp_path / "gpu.json"
    with pytest.raises(SystemExit, match=r"Failed: evaluation\. The rest is written"):
        benchmark("run").main(["gpu", "--toy", "--out", str(file)])
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content["device"]["copy_gb_per_second"] > 0
    lines = content["products"]["lines"]
    assert {(line["batch"], line["format"], line["contender"]) for line in lines} == {
        *((1, "bfloat16", name) for name in ("torch.mv", "F.linear", "teal", "wina", "split-k")),
        *((batch, form, "wina") for batch in (1, 2) for form in ("bfloat16", "int8", "int4")),
        (2, "bfloat16", "F.linear"),
    }
    for line in lines:
        assert 0 < line["milliseconds"]["p10"] <= line["milliseconds"]["median"] <= line["milliseconds"]["p90"]
        rate = line["read_bytes"] / line["milliseconds"]["median"] / 1e6
        assert line["gb_per_second"] == pytest.approx(rate)
        assert line["of_copy"] == pytest.approx(rate / content["device"]["copy_gb_per_second"])
        assert line["deviation"] < 0.02
        assert ("over_split-k" in line) == (line["contender"] in ("wina", "teal") and line["batch"] == 1)
    decoding = content["decoding"]
    assert set(decoding["tokens_per_second"]) == {"dense", "dense, fused", "gated", "gated, fused"}
    assert decoding["not_fused"] == []
    assert 0.2 < decoding["dropped"] < 0.8
    assert 1 < decoding["speed_up_allowed_by_bytes"] < 2
    assert content["evaluation"]["turns"] >= 2
    assert content["evaluation"]["tokens_per_second"]["median"] > 0
    assert content["failures"] == [{"part": "evaluation", "why": "it fell over"}]
    page = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert "| 48 x 64 | 2 | int4 | wina | 50 % |" in page
    assert "it fell over" in page


def test_a_part_in_a_process_of_its_own_leaves_what_it_measured_and_its_error(
    benchmark: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton", reason="Triton ships for Linux alone")
    monkeypatch.syspath_prepend(tmp_path)
    source = (
        "def measure(toy, machine, _):\n    yield {'copy': machine.copy, 'toy': toy}\n    raise OSError('no more')\n"
    )
    (tmp_path / "gpu_quick.py").write_text(source, encoding="utf-8")
    earlier = {"device": {"copy_gb_per_second": 9.0}}
    results, why = benchmark("gpu").run_part("quick", math.inf, math.inf, True, earlier)
    assert results == {"copy": 9.0, "toy": True}
    assert why.startswith("exit code 1")
    assert "OSError: no more" in why
    assert benchmark("gpu").run_part("device", -1.0, 0.0, True, {}) == ({}, "no time was left")


def test_the_page_shows_the_launches_that_were_counted(benchmark: Callable[[str], Any], tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="Triton ships for Linux alone")
    launches, page = benchmark("launches"), benchmark("gpu").PAGE
    steps = json.loads((FOLDER / "results" / "launches.json").read_text(encoding="utf-8"))["steps"]
    text = page.read_text(encoding="utf-8")
    table = "\n".join(launches.table(steps))
    assert f"\n\n{table}\n\n" in text, "run kernels/benchmarks/run.py launches"
    copy = tmp_path / "gpu.md"
    copy.write_text(text.replace(table, "\n".join(table.splitlines()[:3])), encoding="utf-8")
    launches.write_table(copy, steps)
    assert copy.read_text(encoding="utf-8") == text


def test_a_budget_keeps_its_time_but_for_the_least_turns(benchmark: Callable[[str], Any]) -> None:
    pytest.importorskip("triton", reason="Triton ships for Linux alone")
    gpu = benchmark("gpu")
    assert len(list(gpu.Budget(0.0).turns(9))) == gpu.LEAST_TURNS
    assert list(gpu.Budget(1e6).turns(9)) == list(range(9))
    assert gpu.Budget(1e6).one_of(4).left == pytest.approx(250_000, rel=1e-3)


def test_the_tables_of_a_gpu_replace_the_last_section_of_a_page(
    benchmark: Callable[[str], Any], tmp_path: Path
) -> None:
    pytest.importorskip("triton", reason="Triton ships for Linux alone")
    page = tmp_path / "gpu.md"
    page.write_text("# Title\n\nText.\n\n## Measured on a GPU\n\nNot yet.\n", encoding="utf-8")
    content: dict[str, Any] = {
        "hardware": "Card", "versions": {"torch": "2", "cuda": "13", "triton": "3"}, "seconds": 400.0, "bars": [],
        "failures": [{"part": "products", "why": "exit code 1\nout of memory"}], "device": {"copy_gb_per_second": 3000},
    }  # fmt: skip
    for _ in range(2):
        benchmark("gpu").write_page(page, content)
        text = page.read_text(encoding="utf-8")
        assert text.startswith("# Title\n\nText.\n\n## Measured on a GPU\n\nCard, torch 2, CUDA 13, Triton 3.\n")
        assert text.count("A copy moves 3000 GB/s.") == text.count("    out of memory") == 1
        assert "Not yet" not in text


def test_the_bars_of_a_gpu_name_what_misses_them(benchmark: Callable[[str], Any]) -> None:
    pytest.importorskip("triton", reason="Triton ships for Linux alone")
    common = {"outputs": 5120, "inputs": 17920, "format": "bfloat16", "deviation": 0.01}
    lines = [
        {**common, "batch": 1, "contender": "wina", "sparsity": 0.5, "of_copy": 0.8, "over_split-k": 0.9},
        {**common, "batch": 1, "contender": "wina", "sparsity": 0.4, "of_copy": 0.7, "over_split-k": 1.04},
        {**common, "batch": 4, "contender": "wina", "sparsity": 0.5, "of_copy": 0.3, "deviation": 0.5},
    ]
    copy, split_k, exact = benchmark("gpu_products").bars(lines)
    assert (copy["measured"], copy["met"], copy["points"]) == (0.8, True, 1)
    assert (split_k["measured"], split_k["met"]) == (1.04, False)
    assert split_k["missed"] == ["wina 5120 x 17920, batch 1, bfloat16, 40 %: 1.040"]
    assert exact["missed"] == ["wina 5120 x 17920, batch 4, bfloat16, 50 %: 0.500"]


@pytest.mark.parametrize(
    ("way", "selection", "at_most"),
    [("fused", "threshold", 0.15), ("fused", "topk", 0.22), ("transformers", "threshold", 1.0)],
)
def test_what_a_decoded_token_of_8_billion_weights_launches(
    benchmark: Callable[[str], Any], way: str, selection: Selection, at_most: float
) -> None:
    """At 50 % and 256 tokens of context: by threshold within 15 % of the token in few launches, or not at all."""
    pytest.importorskip("triton", reason="Triton ships for Linux alone")
    launches, decoding = benchmark("launches"), benchmark("gpu_decoding")
    method = MethodSpec(name="wina", masks="shared", selection=selection)
    counted = launches.counted_step(way, method, 256, decoding.LLAMA_3_8B, decoding.VOCABULARY)
    assert counted.products == 4 * 32 + 1
    weights = 32 * (4096 * 4096 * 2.5 + 3 * 4096 * 14336) / 2 + decoding.VOCABULARY * 4096
    assert counted.product_bytes == pytest.approx(2 * weights, rel=0.05)
    assert counted.share <= at_most
    if way == "fused":
        assert counted.outside.total() == (8 if selection == "topk" else 4) * 32 + 4
    else:
        assert counted.share > 0.5


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
    models, route = benchmark("random_models"), benchmark("rotation").ROUTES["global + heads"]
    peaks = []
    for layers in (2, 5):
        view = models.random_llama(models.Size(256, 704, layers, heads=8, kv_heads=8)).view
        with Held(view.model.parameters()) as held:
            route(view)
        assert 0.1 < held.peak / (8 * sum(view.layout.parameters[0])) < 0.7
        peaks.append(held.peak)
    assert peaks[0] == peaks[1]
