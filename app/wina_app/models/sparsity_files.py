"""Sparsity plans as JSON files."""

from pathlib import Path

from pydantic import ValidationError

from wina_core.errors import WinaError, explain
from wina_core.export import write_atomically
from wina_core.plan import SparsityPlan


def read_plan(path: Path) -> SparsityPlan:
    """The plan in a file. Raises WinaError when it cannot be read or is no plan."""
    try:
        return SparsityPlan.model_validate_json(path.read_bytes())
    except OSError as error:
        raise WinaError(f"{path} cannot be read ({error.strerror}); choose a file that you may open.") from error
    except ValidationError as error:
        reason = explain(error).rstrip(".")
        raise WinaError(f"{path} is no sparsity plan saved from this page ({reason}); choose another file.") from error


def write_plan(plan: SparsityPlan, path: Path) -> None:
    """Write a plan for people and programs to read. Raises WinaError."""
    write_atomically(path, plan.model_dump_json(indent=1).encode() + b"\n")
