"""Runner of benchmarks: prints medians and ratios, and writes them to a JSON file.

    python kernels/benchmarks/run.py rotation
    python kernels/benchmarks/run.py all
    python kernels/benchmarks/run.py gpu
    python kernels/benchmarks/run.py launches
    python kernels/benchmarks/run.py peers
    python kernels/benchmarks/run.py peers-kl --help
    python kernels/benchmarks/run.py real-size --help
    python kernels/benchmarks/run.py scaling

A benchmark is a function of a file here, or in `tests/benchmarks` for the window, `measure(toy) -> list[Comparison]`;
its docstring states the expectation from before the measurement. Files: `results/<name>-cpu.json`, or --out. Times are
never asserted: a ratio beyond its bar is marked. `gpu`, `launches` and `peers` are not part of
`all` and write their own files; `peers-kl`, `real-size` and `scaling` have options of their own. The
benchmarks of peers need the optional extra `peers`.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from comparing import Timing, TimingComparison, write_results

BENCHMARKS = {
    "rotation": "rotation",
    "gating": "gating",
    "calibration": "gating.measure_calibration",
    "allocation": "gating.measure_allocation",
    "product": "product",
    "prompts": "decoding.measure_prompts",
    "decoding": "decoding",
    "loading": "decoding.measure_loading",
    "listing": "listing",
    "harness": "gating.measure_harness",
    "opening": "opening",
    "painting": "painting",
}
"""Modules, with functions other than `measure`."""
OTHERS = ("gpu", "launches", "peers")
WITH_OPTIONS = {
    "peers-kl": "peers_kl",
    "real-size": "scaling.main_real_size",
    "scaling": "scaling",
}
"""Modules of the benchmarks with options of their own, with functions other than `main`."""
HERE = Path(__file__).parent
WINDOW = HERE.parents[1] / "tests" / "benchmarks"
"""Benchmarks of the window, with results of their own."""


def main(arguments: Sequence[str] | None = None) -> None:
    sys.path += [folder for folder in (str(WINDOW), str(WINDOW.parents[1])) if folder not in sys.path]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=(*BENCHMARKS, "all", *OTHERS, *WITH_OPTIONS))
    parser.add_argument("--out", type=Path, help="the file to write; with `all`, a folder")
    parser.add_argument("--toy", action="store_true", help="tiny sizes, one repetition: to see that it works")
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in WITH_OPTIONS:
        _function(WITH_OPTIONS[arguments[0]], "main")(arguments[1:])
        return
    options = parser.parse_args(arguments)
    if options.toy and options.out is None:
        parser.error("--toy needs --out, so that it never replaces real results")
    if options.name in OTHERS:
        importlib.import_module(options.name).run(options.out, options.toy)
        return
    names = tuple(BENCHMARKS) if options.name == "all" else (options.name,)
    for name in names:
        file = (
            options.out if options.out and options.name != "all" else _results(name, options.out) / f"{name}-cpu.json"
        )
        comparisons = _function(BENCHMARKS[name], "measure")(options.toy)
        print(f"\n{name}\n{report(comparisons)}", flush=True)
        write_results(file, name, {"comparisons": [asdict(comparison) for comparison in comparisons]})


def _function(name: str, usual: str) -> Callable[..., Any]:
    """Return the function of "module.function", or the usual one of "module"."""
    module, _, function = name.partition(".")
    benchmark: Callable[..., Any] = getattr(importlib.import_module(module), function or usual)
    return benchmark


def _results(name: str, out: Path | None) -> Path:
    return out or (WINDOW if (WINDOW / f"{name}.py").exists() else HERE) / "results"


def report(comparisons: Sequence[TimingComparison]) -> str:
    lines = []
    for comparison in comparisons:
        lines.append("\n" + ", ".join(f"{name} {value}" for name, value in comparison.setting.items()))
        lines.append(f"{'':28}{'wall s':>9}{'p10':>9}{'p90':>9}{'ratio':>8}{'cpu s':>9}{'ratio':>8}{'bar':>7}")
        lines += [_line(timing) for timing in comparison.timings]
    return "\n".join(lines)


def _line(timing: Timing) -> str:
    wall = timing.wall_seconds
    line = f"{timing.name:28}{wall.median:9.3f}{wall.p10:9.3f}{wall.p90:9.3f}{timing.wall_ratio.median:8.3f}"
    line += f"{timing.cpu_seconds.median:9.3f}{timing.cpu_ratio.median:8.3f}"
    if timing.at_most is not None:
        line += f"{timing.at_most:7.2f} {'met' if timing.wall_ratio.median <= timing.at_most else 'MISSED'}"
    return line + "".join(f"  {name} {value:.3g}" for name, value in timing.facts.items())


if __name__ == "__main__":
    main()
