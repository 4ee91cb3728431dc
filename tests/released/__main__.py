"""Markdown table of every method and released reading: `python -m tests.released`.

Each row compares the project with the oracle in float64 on the tiny models of `samples`. It takes about a minute. With
`--model FOLDER --text FILE` it compares the published configuration on a pretrained model instead (`real_model`).
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "app"), str(ROOT / "kernels")]  # what pytest adds from pyproject.toml

import torch  # noqa: E402

from tests.released import readings, real_model  # noqa: E402
from wina_core.specs import TextSpec  # noqa: E402

HEADER = ("Method", "Reading", "Source", "Models", "Largest difference", "Masks equal")


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
    """Print the table; a comparison that fails shows its error, since the table shows what the project lacks."""
    with tempfile.TemporaryDirectory() as folder:
        texts = readings.texts(Path(folder))
        print(f"| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}")
        for row in readings.COMPARISONS:
            try:
                worst = readings.worst(row.measure(name, texts) for name in row.models)
                cells = (
                    (f"{worst.difference:.1e} ({row.unit})", "-")
                    if row.unit
                    else (f"{worst.difference:.1e}", worst.masks)
                )
            except Exception as error:
                cells = f"{type(error).__name__}: {str(error).splitlines()[0]}", "-"
            print(f"| {' | '.join((row.method, row.label, row.source, ', '.join(row.models), *cells))} |", flush=True)


if __name__ == "__main__":
    main()
