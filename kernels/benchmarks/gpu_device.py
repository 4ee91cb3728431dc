"""The GPU itself: bandwidth, the time of a launch, and the fused step and every kernel against the reference.

A kernel that is wrong or fails is named, with its error; the ones after it are checked all the same.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gpu_products import deviation, seconds_of
from random_models import Size, random_llama
from torch import Tensor
from wina_kernels import gpu, reference
from wina_kernels.weights import WeightT

from wina_core.compute.gating import attach
from wina_core.compute.generation.fused import FusedModel, fuse
from wina_core.compute.latency.graphs import GraphDecoder
from wina_core.compute.latency.products import int4_weight, int8_weight
from wina_core.compute.models.loading import LoadedModel
from wina_core.specs import MethodSpec
from wina_core.specs.plans import UniformSparsity

if TYPE_CHECKING:
    from gpu import Budget, GpuMachine

_LAUNCHES = 200
_TOLERANCE = {"float32": 1e-3, "bfloat16": 2e-2, "int8": 2e-2, "int4": 2e-2}
_TOP_K = MethodSpec(name="wina", masks="shared")


def measure(toy: bool, machine: GpuMachine, budget: Budget) -> Iterator[dict[str, Any]]:
    """Yield bandwidth, launch time and checks so far."""
    results: dict[str, Any] = {"copy_gb_per_second": copy_bandwidth(machine)}
    yield results
    if machine.device.type == "cuda":
        results["launch_microseconds"] = launch_microseconds()
        yield results
    results["checks"] = []
    for name, check in checks(toy, machine.device):
        if budget.left <= 0:
            results["checks"].append({"check": name, "passed": None, "why": "no time was left"})
            continue
        results["checks"].append({"check": name, **_checked(check)})
        print(f"{name}: {'passed' if results['checks'][-1]['passed'] else 'FAILED'}", flush=True)
        yield results
    failed = [check_result["check"] for check_result in results["checks"] if not check_result["passed"]]
    if failed:
        raise SystemExit(
            f"These kernels are wrong, fail or were not checked here: {', '.join(failed)}; see the results' `checks`."
        )


def copy_bandwidth(machine: GpuMachine) -> float:
    """Return GB/s (1e9 bytes), read and written, of copying a buffer much larger than the cache."""
    source = torch.ones(max(1 << 24, 8 * machine.cache_bytes), dtype=torch.uint8, device=machine.device)
    target = torch.empty_like(source)
    times = [seconds_of([partial(target.copy_, source)] * 4) for _ in range(10)][1:]
    return 2 * source.numel() / float(np.median(times)) / 1e9


def launch_microseconds() -> float:
    """Return the time from one small kernel to the next in a CUDA graph."""
    x = torch.zeros(64, device="cuda")
    x.add_(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_LAUNCHES):
            x.add_(1)
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return 1e6 * min(times) / _LAUNCHES


def _checked(check: Callable[[], str]) -> dict[str, Any]:
    try:
        why = check()
    except Exception as error:
        trace = traceback.format_exc()[-1500:]
        return {"passed": False, "why": f"{type(error).__name__}: {error}"[:500], "trace": trace}
    return {"passed": not why, "why": why}


def checks(toy: bool, device: torch.device) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield checks with their names; a check returns what is wrong, empty if nothing is."""
    size = Size(32, 64, 1, 4, 2) if toy else Size(512, 1024, 3, 8, 2)
    yield "fused step, dense", partial(_dense_step, size, device)
    yield "fused step, gated, top k", partial(_gated_step, True, size, device)
    yield "gated step in a CUDA graph, top k", partial(_gated_step, False, size, device)
    n, m = (72, 144) if toy else (1040, 2064)
    for form in _TOLERANCE:
        for rows in (3,) if toy else (1, 3, 8):
            yield f"sparse_linear, {form}, {rows} rows", partial(_product, "sparse_linear", form, rows, n, m, device)
    yield "top_k_linear, bfloat16", partial(_product, "top_k_linear", "bfloat16", 1, n, m, device)


def _product(name: str, form: str, rows: int, n: int, m: int, device: torch.device) -> str:
    random = torch.Generator(device).manual_seed(0)
    dtype = torch.float32 if form == "float32" else torch.bfloat16
    weights = (torch.randn(n, m, generator=random, device=device) * n**-0.5).to(dtype)
    weight_t: WeightT = {"int8": int8_weight, "int4": int4_weight}.get(form, lambda w: w)(weights)
    x = torch.randn(rows, n, generator=random, device=device).to(dtype)
    scale = torch.rand(n, generator=random, device=device) + 0.5
    limit = 0.6 if name == "sparse_linear" else n // 2
    y: Tensor = getattr(gpu, name)(x, weight_t, scale, limit)
    expected: Tensor = getattr(reference, name)(x, weight_t, scale, limit)
    error = deviation(y, expected)
    return "" if error <= _TOLERANCE[form] else f"deviates by {error:.3g} of the largest output"


def _dense_step(size: Size, device: torch.device) -> str:
    loaded = random_llama(size, torch.float32, None, device)
    expected = _tokens(loaded, None, device)
    fused = fuse(loaded, None)
    if isinstance(fused, str):
        return f"not fused: {fused}"
    return _compared(_tokens(loaded, fused, device), expected)


def _gated_step(is_fused: bool, size: Size, device: torch.device) -> str:
    loaded = random_llama(size, torch.float32, None, device)
    half = UniformSparsity(sparsity=0.5)
    with attach(loaded, _TOP_K, half):
        prompt = _prompt(device)
        out = loaded.model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=4,
                                    min_new_tokens=4, pad_token_id=0)  # fmt: skip
        expected = out[0, prompt.shape[1] :].tolist()
    with attach(loaded, _TOP_K, half, kernels=True) as gates:
        fused = fuse(loaded, gates) if is_fused else None
        if isinstance(fused, str):
            return f"not fused: {fused}"
        return _compared(_tokens(loaded, fused, device), expected)


def _prompt(device: torch.device) -> Tensor:
    return torch.arange(20, 32, device=device)[None]


def _tokens(loaded: LoadedModel, fused: FusedModel | None, device: torch.device) -> list[int]:
    decoder = GraphDecoder(loaded.model, 16, fused=fused)
    return [int(token) for token in decoder.tokens(_prompt(device), 4)]


def _compared(decoded: list[int], expected: list[int]) -> str:
    return "" if decoded == expected else f"decodes {decoded} instead of {expected}"
