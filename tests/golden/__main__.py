"""What the program prints and writes, kept to be compared byte for byte after its form was changed.

    python -m tests.golden write FOLDER      before the change
    python -m tests.golden compare FOLDER    after it; the exit code is 1 for any difference

Everything goes through the command line, so that nothing here changes with the program's modules. Numbers are compared
to the last digit, on the processor that wrote them and on one core of it, since the order of sums depends on the number
of threads; FOLDER is not part of the project for that reason.
"""

import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]

COMMANDS = """
study list --json
study run demo-quick --json
study run tests/golden/methods.toml --json --yes
study run tests/golden/bits.toml --json --yes
results --json --long
results --json
results frontier --json
compare --study demo-quick --unpaired --json
export OUT/long.csv --long
export OUT/wide.csv
export OUT/wide.tsv
export OUT/wide.md
export OUT/wide.tex
cost demo --json
cost demo --method larosa --json
gate demo --layer 3 --projection down --prompt "import os" --sparsity 0.5 --json
generate "import os" --model demo --sparsity 0.5 --max-new-tokens 12 --json
allocate demo --output-path OUT/plan.json --sparsity 0.5 --allocator marginal --tokens 512 --rotation none --json
export-model OUT/model --model demo --sparsity 0.5 --rotation free
synthetic --network lemma --seeds 1 --sparsity 0.5 --json
tasks demo --json
"""
"""With one home and one database, in this order; OUT is a folder of what they write."""

VARIES = re.compile(r'"(user|host|\w*seconds|\w*per_second)": [^\n]*')
"""What differs from run to run."""


def outputs(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Run the commands with `folder` as home; yield each one's name and output, then the files that they wrote."""
    written = folder / "out"
    written.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "app", "kernels")),
        "WINA_HOME": str(folder / "home"),
        "WINA_DATABASE": str(folder / "results.sqlite"),
        "COLUMNS": "200",
    }
    for line in COMMANDS.split("\n")[1:-1]:
        command = [sys.executable, "-m", "wina_core.cli", *shlex.split(line.replace("OUT/", f"{written}/"))]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        print(f"{done.returncode}  wina {line}", flush=True)
        if done.returncode:
            print(done.stderr[-2000:])
        yield line, VARIES.sub("", done.stdout).replace(str(folder), "FOLDER").encode()
    for file in sorted(file for file in written.rglob("*") if file.is_file()):
        content = without_times(file)
        kept = content if len(content) < 1 << 20 else hashlib.sha256(content).hexdigest().encode()
        yield str(file.relative_to(written)), kept.replace(str(folder).encode(), b"FOLDER")
    table = subprocess.run([sys.executable, "-m", "tests.released"], cwd=ROOT, capture_output=True, text=True)
    yield "tests.released", re.sub(r"Seconds: \d+", "", table.stdout).encode()


def without_times(file: Path) -> bytes:
    """Return a file's content, a table's without the columns of times."""
    if file.suffix not in (".csv", ".tsv"):
        return file.read_bytes()
    table = pd.read_csv(file, sep="," if file.suffix == ".csv" else "\t", dtype=str, keep_default_na=False)
    return table.drop(columns=table.columns.intersection(["finished", "seconds"])).to_csv(index=False).encode()


def main(action: str, golden: Path) -> int:
    """Write the golden files, or compare with them and print which differ."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    golden.mkdir(parents=True, exist_ok=action == "compare")
    differing = []
    with tempfile.TemporaryDirectory() as folder:
        for name, content in outputs(Path(folder)):
            file = golden / re.sub(r"[^\w.]+", "-", name)
            if action == "write":
                file.write_bytes(content)
            elif not file.exists() or file.read_bytes() != content:
                differing.append(name)
                (golden / f"{file.name}.now").write_bytes(content)
    print(*(f"differs: {name}" for name in differing), sep="\n")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
