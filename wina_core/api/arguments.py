"""Specs made of the arguments of public functions, with errors in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from wina_core.errors import WinaError, explain
from wina_core.methods import get_method
from wina_core.specs import MethodSpec, Selection
from wina_core.specs.plan_pair import load_pair
from wina_core.specs.plans import SparsityPlan, UniformSparsity

Sparsity = float | SparsityPlan | str | PathLike[str]
"""A fraction of the gated weights to drop, a plan, or a plan's file."""


@contextmanager
def explained() -> Iterator[None]:
    """Raise WinaError in place of pydantic's ValidationError."""
    try:
        yield
    except ValidationError as error:
        raise WinaError(explain(error)) from error


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise WinaError for a value that is none of a Literal's."""
    if value not in get_args(choices):
        raise WinaError(f"{name} cannot be {value!r}; choose one of {', '.join(get_args(choices))}.")


@explained()
def method_spec(method: str | MethodSpec, selection: Selection | None) -> MethodSpec:
    """Return a method's spec; a given selection replaces its own. Raises WinaError for an unknown method."""
    spec = MethodSpec(name=method) if isinstance(method, str) else method
    if selection is not None:
        spec = MethodSpec.model_validate({**spec.model_dump(exclude_unset=True), "selection": selection})
    get_method(spec)
    return spec


@explained()
def plan_of(sparsity: Sparsity) -> UniformSparsity | SparsityPlan:
    """Return the plan of an argument; WinaError for a file with bits of its own."""
    if isinstance(sparsity, SparsityPlan):
        return sparsity
    if not isinstance(sparsity, str | PathLike):
        number: object = sparsity  # NumPy's, too
        return UniformSparsity.model_validate({"sparsity": float(number) if isinstance(number, Real) else number})
    pair = load_pair(Path(sparsity))
    if pair.quantization is not None:
        raise WinaError(
            f"The plan {sparsity} has bits of its own; quantize the model with them, and give the plan's targets: "
            "pair = wina_core.specs.plan_pair.load_pair(path), pair.quantization, pair.plan."
        )
    return pair.plan
