"""Sparsity plans as JSON files; `wina_core.plan.load_plan` reads them."""

from pathlib import Path

from wina_core.export import write_atomically
from wina_core.plan import SparsityPlan


def write_plan(plan: SparsityPlan, path: Path) -> None:
    """Write a plan for people and programs to read. Raises WinaError."""
    write_atomically(path, plan.model_dump_json(indent=1).encode() + b"\n")
