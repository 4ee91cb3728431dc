"""Markdown table of every method and released reading: `python -m tests.released`.

Each row compares the project with the oracle in float64 on the tiny models of `samples`. It takes about a minute. With
`--model FOLDER --text FILE` it compares the published configuration on a pretrained model instead (`real_model`).
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "app"), str(ROOT / "kernels")]  # what pytest adds from pyproject.toml

import torch  # noqa: E402

from tests.released import readings, real_model  # noqa: E402
from tests.released.readings import Outcome  # noqa: E402
from tests.released.samples import MODELS, random_text, sample  # noqa: E402
from wina_core.specs import TextSpec  # noqa: E402

HEADER = ("Method", "Reading", "Source", "Models", "Largest difference", "Masks equal")


def _row(method: str, reading: str, source: str, models: str, measure: Callable[[], tuple[str, str]]) -> None:
    try:
        difference, masks = measure()
    except Exception as error:  # the table shows what the project lacks
        difference, masks = f"{type(error).__name__}: {str(error).splitlines()[0]}", "-"
    print(f"| {method} | {reading} | {source} | {models} | {difference} | {masks} |", flush=True)


def _logits(outcomes: Callable[[], list[Outcome]]) -> Callable[[], tuple[str, str]]:
    def measure() -> tuple[str, str]:
        worst = readings.worst(outcomes())
        return f"{worst.difference:.1e}", worst.masks

    return measure


def _number(values: Callable[[], list[float]], unit: str) -> Callable[[], tuple[str, str]]:
    return lambda: (f"{max(values()):.1e} ({unit})", "-")


def main() -> None:
    """Print the table of the tiny models, or the comparisons of a pretrained one."""
    parser = argparse.ArgumentParser(description="Compare the project with an independent recomputation in float64.")
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="a pretrained model instead of tiny ones")
    parser.add_argument("--text", help="the text on which it is gated, as in a study")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--layers", type=int, nargs="+", default=[0, 15], help="layers that are compared alone")
    parser.add_argument("--sparsity", type=float, default=0.5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    if given.model is None:
        print_readings()
    elif given.text is None:
        parser.error("--model needs --text")
    else:
        text = TextSpec(source=given.text, tokens=given.tokens, sequence=given.sequence)
        real_model.report(given.model, text, given.layers, given.sparsity)
    print(f"\nSeconds: {time.perf_counter() - began:.0f}")


def print_readings() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        text = random_text(Path(folder), tokens=256)
        Path(folder, "short").mkdir()
        short = random_text(Path(folder, "short"), tokens=64, sequence=32)
        models = {name: sample(name) for name in MODELS}
        everyone = ", ".join(models)
        print(f"| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}")
        for each in readings.READINGS:
            measure = _logits(lambda each=each: [readings.compare(each, model, text) for model in models.values()])
            _row(each.method, each.label, each.source, everyone, measure)
        for each in readings.THRESHOLDS:
            errors = _number(
                lambda each=each: [readings.threshold_error(each, model, text) for model in models.values()],
                "relative, of thresholds",
            )
            _row(each.method, f"{each.label}, against exact quantiles", each.source, everyone, errors)
        code = readings.TRANSFORM_CODE
        dense = _logits(lambda: [readings.compare_transform(name, text) for name in models])
        _row("transform", "published, logits of the dense model", code, everyone, dense)
        for variant in ("as_released", "paper"):
            gated = _logits(lambda it=variant: [readings.compare_transformed(name, text, it) for name in models])
            _row("wina + transform", variant.replace("_", " "), code, everyone, gated)
        for folded, label in ((True, "merged, gains folded"), (False, "its evaluation code, gains kept")):
            rotated = _logits(lambda it=folded: [readings.compare_larosa(name, text, folded=it) for name in models])
            _row("larosa", label, readings.LAROSA_CODE, everyone, rotated)
        for policy in readings.PREFIXES:
            prefix = _logits(
                lambda it=policy: [
                    readings.compare_prefix(it, models["llama-gqa"], tokens) for tokens in readings.PROMPTS
                ]
            )
            _row("dense prefix", policy, "see recomputed/selections.py", "llama-gqa", prefix)
        for by, file in (
            ("wina", "microsoft/wina: wina/greedyopt.py"),
            ("teal", "FasterDecoding/TEAL: teal/greedyopt.py"),
        ):
            names = [name for name, search in readings.GREEDY if search == by]
            plans = _number(
                lambda by=by, names=names: [readings.compare_greedy(it, by, short) for it in names], "of plans"
            )
            _row("greedy", f"as released by {by.upper()}", file, ", ".join(names), plans)


if __name__ == "__main__":
    main()
