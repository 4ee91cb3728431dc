"""Small studies as files, for the Studies page."""

from pathlib import Path

from wina_core.records import MetricRecord, UnitRecord
from wina_core.specs import RunSpec
from wina_core.store import Store

ROLE = "Llama-2-7B"
PAPER = f"""
name = "tiny-paper"
title = "Table 3: a tiny one"
description = "Dense, TEAL and WINA at 25 and 50 %."
paper = "commonsense"
sparsities = [0.25, 0.50]
roles = [{{ name = "{ROLE}", hub = "meta-llama/Llama-2-7b-hf" }}]
models = [{{ location = "role:{ROLE}" }}]
configurations = [
  {{ name = "dense" }},
  {{ name = "TEAL", method = {{ name = "teal" }} }},
  {{ name = "WINA", method = {{ name = "wina" }} }},
]

[evaluation]
tasks = ["piqa"]
fidelity = false
"""
DEMO = """
name = "tiny-demo"
sparsities = [0.5]
models = [{ location = "demo" }]
configurations = [{ method = { name = "wina" } }]

[evaluation]
tasks = ["demo_choice", "humaneval"]
fidelity = false

[latency]
shapes = [{ outputs = 64, inputs = 48 }]
batches = [1]
sparsities = [0.5]
"""
BROKEN = 'name = "broken"\nsparsities = [1.5]\n'


def write(folder: Path, name: str, text: str) -> Path:
    """A study's file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def record(store: Store, run: RunSpec, unit: str, metric: str, value: float, n: int = 100) -> None:
    """Store one measurement of a saved run."""
    numbers = (MetricRecord(task=unit, metric=metric, value=value, stderr=0.02, n=n, higher_is_better=True),)
    store.record_unit(UnitRecord(run=run.content_hash(), unit=unit, metrics=numbers, seconds=1.0))
