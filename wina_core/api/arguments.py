"""Checks of the arguments of public functions, and the specs made of them, with errors in one sentence."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, create_model

from wina_core.errors import WinaError, explain
from wina_core.jobs import AllocateJob, AllocateJointlyJob, CalibrateJob
from wina_core.model_info.resolve import resolve_rotation, resolve_text
from wina_core.specs import (
    AUTO_ROTATION,
    FREE_ROTATION,
    NO_ROTATION,
    USUAL_EFFORT,
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    FoldNorms,
    JointSpec,
    MethodSpec,
    ModelSource,
    Objective,
    RotationMode,
    RotationSpec,
    Selection,
    TextSpec,
)
from wina_core.specs.allocations import ALLOCATOR_PLUGINS, BUILT_IN_ALLOCATORS
from wina_core.specs.methods import get_method
from wina_core.specs.plans import SparsityPlan, UniformSparsity
from wina_core.specs.quantization import load_pair

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Sparsity = float | SparsityPlan | str | PathLike[str]
"""A fraction of the gated weights to drop, a plan, or a plan's file."""
_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)
ALLOCATORS = (*BUILT_IN_ALLOCATORS, "greedy_wina_released", "greedy_teal_released", *ALLOCATOR_PLUGINS.names)
"""Names of `allocator_spec`."""


def _several(value: object) -> object:
    if isinstance(value, str | bytes):
        raise ValueError(f"it should be a list, not one text; write [{value!r}]")
    return value


Several = BeforeValidator(_several)
"""Marks an iterable of texts that one text is not, although Python iterates over its letters."""


@contextmanager
def explained() -> Iterator[None]:
    """Raise WinaError in place of pydantic's ValidationError."""
    try:
        yield
    except ValidationError as error:
        raise WinaError(explain(error, with_classes=True)) from error


def checked(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a public function raise WinaError, which names the argument, for arguments of other types than it takes.

    Numbers of other libraries, such as NumPy's, become Python's.
    """
    expected = signature(function)

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        bound = expected.bind(*args, **kwargs)
        arguments = {name: _number(value) for name, value in bound.arguments.items()}
        with explained():
            _arguments(function)(**arguments)
            return function(**arguments)  # type: ignore[call-arg]

    return call


@cache
def _arguments(function: Callable[..., Any]) -> type[BaseModel]:
    """Return a model of the function's arguments; those whose types are imported when they are used have any."""
    fields: dict[str, Any] = {
        name: (
            Any if isinstance(parameter.annotation, str) else parameter.annotation,
            ... if parameter.default is Parameter.empty else parameter.default,
        )
        for name, parameter in signature(function).parameters.items()
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
            "pair = wina_core.specs.quantization.load_pair(path), pair.quantization, pair.plan."
        )
    return pair.plan


def rotation_spec(
    mode: RotationMode | Literal["auto", "free"],
    *,
    heads: bool | None = None,
    objective: Objective | None = None,
    steps: int | None = None,
    fold_norms: FoldNorms | None = None,
    text: str | None = None,
    tokens: int | None = None,
    data_folder: str | None = None,
    **settings: object,
) -> RotationSpec:
    """Return a rotation's spec, its files as they are on disk now; None takes the default of the mode and objective.

    Heads are rotated by default in every mode but "none", and norms folded by default with any rotation, where masks
    stay the same. `settings` are other fields of RotationSpec; `data_folder` is as in `resolve_rotation`.
    """
    per_head = mode != "none" if heads is None else heads
    if mode == "none" and not per_head:
        return NO_ROTATION.model_copy(update={"fold_norms": fold_norms or "none"})
    base = {"free": FREE_ROTATION, "auto": AUTO_ROTATION}.get(mode) or RotationSpec.model_validate({"mode": mode})
    usual_steps, usual_text = USUAL_EFFORT[objective or base.objective]
    if base.is_auto and (objective or base.objective) == "eigen":
        usual_text = base.text
    settings |= {
        "objective": objective,
        "steps": usual_steps if steps is None else steps,
        "fold_norms": fold_norms or "exact",
        "text": TextSpec(source=text or usual_text.source, tokens=usual_text.tokens if tokens is None else tokens),
    }
    changes = {name: value for name, value in settings.items() if value is not None}
    spec = RotationSpec.model_validate({**base.model_dump(), **changes, "per_head": per_head})
    return resolve_rotation(spec, data_folder)


def allocator_spec(name: str, *, data_folder: str | None = None, **settings: object) -> AllocatorSpec:
    """Return the spec of a named allocator, its text as it is on disk now; `data_folder` is as in `resolve_text`."""
    if name not in ALLOCATORS:
        raise ALLOCATOR_PLUGINS.unknown(name, ALLOCATORS)
    base, _, variant = (name, "", "") if name in ALLOCATOR_PLUGINS.names else name.partition("_")
    spec = AllocatorSpec.model_validate({"name": base, "variant": variant or "corrected", **settings})
    return spec.model_copy(update={"text": resolve_text(spec.text, data_folder)})


# ---- jobs of plans, for the API and the command line -----------------------------------------------------------------


def calibrate_job(
    model: ModelSource, rotation: RotationSpec, method: MethodSpec, text: TextSpec, data_folder: str | None = None
) -> CalibrateJob:
    calibration = CalibrationSpec(text=resolve_text(text, data_folder))
    return CalibrateJob(model=model, rotation=rotation, method=method, calibration=calibration)


def allocate_job(
    model: ModelSource, rotation: RotationSpec, method: MethodSpec, sparsity: float, allocator: AllocatorSpec
) -> AllocateJob:
    plan = AllocatedSparsity(sparsity=sparsity, allocator=allocator)
    return AllocateJob(model=model, rotation=rotation, method=method, plan=plan)


def joint_job(
    model: ModelSource,
    rotation: RotationSpec,
    method: MethodSpec,
    *,
    data_folder: str | None = None,
    **settings: object,
) -> AllocateJointlyJob:
    """Return the job of a joint allocation; `settings` are fields of JointSpec.

    It searches by top k: the plan that it makes is for the selection that suits its quantizer.
    """
    spec = JointSpec.model_validate(settings)
    spec = spec.model_copy(update={"text": resolve_text(spec.text, data_folder)})
    topk = method.model_copy(update={"selection": "topk"})
    return AllocateJointlyJob(model=model, rotation=rotation, method=topk, spec=spec)
