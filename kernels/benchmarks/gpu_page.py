"""The tables of `resources/guide/gpu.md`: the launches of a step, and a GPU's results in its last section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "resources" / "guide" / "gpu.md"
HEADING = "## Measured on a GPU"
_SHOWN = ("wina", "teal", "split-k")
Content = Mapping[str, Any]


def write(page: Path, content: Content) -> None:
    """Replace the page's last section, or write a page of it alone."""
    before = page.read_text(encoding="utf-8").partition(HEADING)[0] if page.exists() else ""
    page.write_text(before + "\n".join(section(content)), encoding="utf-8")


def write_launches(page: Path, steps: Sequence[Content]) -> None:
    """Replace the lines of the page's table of launches."""
    lines = page.read_text(encoding="utf-8").splitlines()
    new = list(launch_table(steps))
    first = lines.index(new[0])
    end = lines.index("", first)
    page.write_text("\n".join([*lines[:first], *new, *lines[end:]]) + "\n", encoding="utf-8")


def launch_table(steps: Iterable[Content]) -> Iterator[str]:
    """Yield the table of counted steps, those of `launches.json`."""
    rows = [
        (
            step["step"], step["gates"], f"{100 * step['sparsity']:g} %", str(step["context"]),
            str(step["launches_outside"]),
            f"{step['megabytes_outside']:.1f}", f"{step['microseconds_outside']:.0f}",
            f"{100 * step['share_outside']:.1f} %",
        )
        for step in steps
    ]  # fmt: skip
    head = ("step", "gates", "dropped", "context", "launches outside", "MB outside", "µs outside", "of the token")
    yield from _table(head, rows)


def section(content: Content) -> Iterator[str]:
    """Yield the section's lines."""
    versions = content["versions"]
    yield from (HEADING, "")
    yield f"{content['hardware']}, torch {versions['torch']}, CUDA {versions['cuda']}, Triton {versions['triton']}."
    yield f"Measured in {content['seconds']:.0f} s by `python kernels/benchmarks/run.py gpu`."
    yield from ("", *_bars(content["bars"]))
    for part in (_device, _decoding, _evaluation, _products):
        lines = list(part(content))
        yield from (*lines, "") if lines else ()
    for failure in content["failures"]:
        yield from (f"The part *{failure['part']}* failed:", "")
        yield from (*(f"    {line}" for line in failure["why"].strip().splitlines()[-12:]), "")


def _bars(bars: Sequence[Content]) -> Iterator[str]:
    if not bars:
        return
    rows = [
        (bar["bar"], f"{bar['wanted']:g}", f"{bar['measured']:.3f}", "met" if bar["met"] else "missed") for bar in bars
    ]
    yield from _table(("aim", "wanted", "measured", ""), rows)
    missed = [f"- {bar['bar']}: {'; '.join(bar['missed'])}." for bar in bars if bar["missed"]]
    yield from ("", "Missed:", "", *missed) if missed else ()
    yield ""


def _device(content: Content) -> Iterator[str]:
    device = content.get("device", {})
    if "copy_gb_per_second" in device:
        launch = device.get("launch_microseconds")
        took = "" if launch is None else f"; a launch in a CUDA graph takes {launch:.2f} µs"
        yield f"A copy moves {device['copy_gb_per_second']:.0f} GB/s{took}."
    checks = device.get("checks", [])
    failed = [each for each in checks if not each["passed"]]
    if checks:
        yield f"{len(checks) - len(failed)} of {len(checks)} checks of the kernels against the reference passed."
    if failed:
        yield from ("", *(f"- {each['check']}: {each['why']}" for each in failed))


def _decoding(content: Content) -> Iterator[str]:
    decoding = content.get("decoding", {})
    if "tokens_per_second" not in decoding:
        return
    yield from ("### Decoding a Llama of 8 billion random parameters", "")
    yield f"One sequence in bfloat16, {100 * decoding['dropped']:.1f} % dropped, in CUDA graphs."
    yield f"The best gated way is {decoding['speed_up']:.2f} times as fast as the best dense one; bytes allow"
    yield f"{decoding['speed_up_allowed_by_bytes']:.2f}."
    yield from (f"Not fused: {reason}." for reason in decoding["not_fused"])
    for way, agreement in decoding.get("tokens_that_agree", {}).items():
        yield f"Tokens of *{way}* equal those of transformers' step in the first {100 * agreement:.0f} %."
    yield ""
    rows = [
        (way, *(f"{speed[name]:.1f}" for name in ("median", "p10", "p90")))
        for way, speed in decoding["tokens_per_second"].items()
    ]
    yield from _table(("model, step", "tokens/s", "p10", "p90"), rows)


def _evaluation(content: Content) -> Iterator[str]:
    evaluation = content.get("evaluation", {})
    if "tokens_per_second" in evaluation:
        yield f"Fidelity, dense and gated together: {evaluation['tokens_per_second']['median']:.0f} tokens/s in batches"
        yield f"of {evaluation['batch']} rows of {evaluation['sequence']} tokens."


def _products(content: Content) -> Iterator[str]:
    products = content.get("products", {})
    lines = [line for line in products.get("lines", ()) if line["contender"] in _SHOWN]
    if not lines:
        return
    yield from ("### Gated products on the GPU", "")
    yield "Against the vendor's dense product in bfloat16, and a split-K kernel of TEAL's design."
    if products["left_out"]:
        yield f"Left out for lack of time: {'; '.join(products['left_out'])}."
    yield ""
    rows = [
        (
            f"{line['outputs']} x {line['inputs']}", str(line["batch"]), line["format"], line["contender"],
            f"{100 * line['sparsity']:g} %", f"{1000 * line['milliseconds']['median']:.1f}",
            f"{line['gb_per_second']:.0f}", f"{100 * line['of_copy']:.0f} %" if "of_copy" in line else "-",
            f"{1 / line['over_vendor']:.2f}", f"{1 / line['over_split-k']:.2f}" if "over_split-k" in line else "-",
        )
        for line in lines
    ]  # fmt: skip
    head = ("shape", "rows", "weights", "kernel", "dropped", "µs", "GB/s", "of copy", "vs dense", "vs split-K")
    yield from _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
