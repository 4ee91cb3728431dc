"""Checks of the arguments of public functions, and the specs made of them, with errors in one sentence."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, create_model

from wina_core.errors import WinaError, explain
from wina_core.specs import MethodSpec, Selection
from wina_core.specs.methods import get_method
from wina_core.specs.plan_pair import load_pair
from wina_core.specs.plans import SparsityPlan, UniformSparsity

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Sparsity = float | SparsityPlan | str | PathLike[str]
"""A fraction of the gated weights to drop, a plan, or a plan's file."""
_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)
_GROUP = "a group of named settings"
"""A spec in the sentences on files."""
_ARGUMENTS = {
    "context": "cost_context",
    "confirm-run-unsafe-code": "confirm_run_unsafe_code=True",
    "filter": "results",
    "model": "model=NAME",
    "original": "fidelity=True",
    "trust-task-code": "trust_task_code=True",
}
"""Arguments of the public functions by the flags in sentences that the command line prints, too."""
_FLAG = re.compile(rf"(?<=[ (])--({'|'.join(_ARGUMENTS)})\b")


def _several(value: object) -> object:
    if isinstance(value, str | bytes):
        raise ValueError(f"it should be a list, not one text; write [{value!r}]")
    return value


Several = BeforeValidator(_several)
"""Marks an iterable of texts that one text is not, although Python iterates over its letters."""


@contextmanager
def explained() -> Iterator[None]:
    """Raise WinaError in place of pydantic's ValidationError, with arguments in place of flags."""
    try:
        yield
    except ValidationError as error:
        sentence = explain(error)
        for problem in error.errors():  # of files, which need no classes
            if "class_name" in (context := problem.get("ctx", {})):
                sentence = sentence.replace(_GROUP, f"an instance of {context['class_name']}", 1)
        raise WinaError(sentence) from error
    except WinaError as error:
        sentence = re.sub(r'--role "([^"=]+)=FOLDER"', r'roles={"\1": FOLDER}', str(error))
        sentence = sentence.replace(
            "`wina results --annotations` lists them", "the column run of query_results() has them"
        )
        sentence = _FLAG.sub(lambda flag: _ARGUMENTS[flag[1]], sentence)
        if sentence == str(error):
            raise
        raise WinaError(sentence) from error


def checked(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a public function raise WinaError, which names the argument, for arguments of other types than it takes.

    Numbers of other libraries, such as NumPy's, become Python's.
    """
    own = signature(function)

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            bound = own.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None  # as Python says it
        given = {name: _number(value) for name, value in bound.arguments.items()}
        with explained():
            _arguments(function)(**given)
            return function(**given)  # type: ignore[call-arg]

    return call


@cache
def _arguments(function: Callable[..., Any]) -> type[BaseModel]:
    """Return a model of the function's arguments; those whose types are imported when they are used have any."""
    fields: dict[str, Any] = {
        name: (
            Any if isinstance(each.annotation, str) else each.annotation,
            ... if each.default is Parameter.empty else each.default,
        )
        for name, each in signature(function).parameters.items()
    }
    return create_model(function.__name__, __config__=_STRICT, **fields)


def _number(value: Any) -> Any:
    if isinstance(value, int | float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


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
        return UniformSparsity(sparsity=sparsity)
    pair = load_pair(Path(sparsity))
    if pair.quantization is not None:
        raise WinaError(
            f"The plan {sparsity} has bits of its own; quantize the model with them, and give the plan's targets: "
            "pair = wina_core.specs.plan_pair.load_pair(path), pair.quantization, pair.plan."
        )
    return pair.plan
