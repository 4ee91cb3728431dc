"""Sweeps made from the Latency page's choice, or a problem for each wrong field."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError

from wina_app.shared.evaluation_choice import parse_sparsities
from wina_core.errors import WinaError, explain
from wina_core.records import Environment
from wina_core.specs import DENSE, CalibrationSpec, MethodSpec, ModelSource, RotationSpec
from wina_core.specs.latency import (
    AUTO,
    BUDGET_SECONDS,
    MOST_SEQUENCES,
    PRESETS,
    DecodePoint,
    DecodeSpec,
    LatencyPoint,
    LatencySpec,
    Shape,
    missing_points,
    parse_shape,
    with_backend,
)

DTYPES: dict[str, str] = {
    "bfloat16": "16 bits, with the range of float32",
    "float16": "16 bits",
    "float32": "32 bits",
}
METHODS: dict[str, str] = {
    "dense": "PyTorch's dense product; always measured as the reference",
    "wina": "Scores inputs by magnitude times column norm",
    "teal": "Scores inputs by magnitude",
    "rsparse": "TEAL's mask, and a low-rank part for dropped inputs",
}
SELECTIONS: dict[str, str] = {
    "threshold": "Keeps scores above a threshold",
    "topk": "Keeps exactly k inputs of each row; finding them costs time",
}
DENSE_PRODUCTS: dict[str, str] = {
    "auto": "Our kernel of the device, with nothing dropped",
    "torch-int8": "PyTorch's product with weights in 8 bits",
    "int8": "Our kernel with weights in 8 bits, with nothing dropped",
    "int4": "Our kernel with weights in 4 bits, with nothing dropped",
}
BACKENDS: dict[str, str] = {
    "auto": "The first that works on the device, the fastest first",
    "dispatched": "What decoding uses: for each product the backend, or the dense product, that is likely the fastest",
    "native": "C++ for this processor's instructions; built by the set-up where a compiler is",
    "triton": "Compiled for the GPU",
    "reference": "PyTorch alone; every other one is checked against it",
}
_DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]+)?")
_LARGEST_BATCH = 2**14
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class ProductChoice:
    """Choice of a grid over single products; lists as typed."""

    presets: tuple[str, ...]
    shapes: str
    batches: str
    sparsities: str
    dtypes: tuple[str, ...]
    methods: tuple[str, ...]
    selections: tuple[str, ...]
    backends: tuple[str, ...]
    device: str
    repetitions: int
    again: bool
    """True to measure stored points again."""
    dense_products: tuple[str, ...] = ()
    """Dense products besides PyTorch's."""


@dataclass(frozen=True)
class DecodeChoice:
    """Choice of a decoding sweep of the open model."""

    sparsities: str
    prompt_tokens: int
    new_tokens: int
    repetitions: int
    again: bool
    batches: str = "1"
    """Sequences at once, as typed."""
    budget_seconds: float | None = BUDGET_SECONDS
    """Time of a point; None without a limit."""


class ChoiceError(Exception):
    """Invalid choice; `problems` has one sentence for each wrong field."""

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__(" ".join(problems.values()))
        self.problems = problems


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """Parse "4096x11008, 5120x17920" to two shapes. Raise WinaError for a wrong entry."""
    return tuple(parse_shape(word) for word in filter(None, map(str.strip, re.split(r"[,;\n]", text))))


def parse_batches(text: str) -> tuple[int, ...]:
    """Parse "1, 4 16" to (1, 4, 16), sorted and unique. Raise WinaError for a wrong entry."""
    batches = set()
    for word in filter(None, re.split(r"[\s,;]+", text)):
        try:
            batch = int(word)
        except ValueError:
            raise WinaError(f'"{word}" is not a whole number; list batches, for example 1, 4, 16.') from None
        if not 1 <= batch <= _LARGEST_BATCH:
            raise WinaError(f"A batch of {batch:,} is not possible; each must be 1 to {_LARGEST_BATCH:,}.")
        batches.add(batch)
    return tuple(sorted(batches))


def build_products(choice: ProductChoice) -> LatencySpec:
    """Return the chosen sweep over products. Raise ChoiceError.

    Options of gated products are read only if one is ticked.
    """
    problems: dict[str, str] = {}
    typed_shapes = _read(problems, "shapes", parse_shapes, choice.shapes)
    presets = tuple(shape for name in choice.presets for shape in PRESETS[name])
    batches = _read(problems, "batches", parse_batches, choice.batches)
    sparsities = _read(problems, "sparsities", parse_sparsities, choice.sparsities)
    gates = any(method != DENSE.name for method in choice.methods)
    no_device = f'There is no device "{choice.device}"; write auto, cpu, cuda or, for the second GPU, cuda:1.'
    checks = (
        (
            "shapes",
            typed_shapes is not None and not typed_shapes + presets,
            "Tick a preset or give a shape, for example 4096x11008.",
        ),
        ("batches", batches == (), "List at least one batch, for example 1."),
        ("dtypes", not choice.dtypes, "Tick at least one dtype."),
        ("methods", not choice.methods, "Tick at least one method."),
        ("sparsities", gates and sparsities == (), "List at least one sparsity in percent, for example 50."),
        ("selections", gates and not choice.selections, "Tick at least one selection."),
        ("backends", gates and not choice.backends, "Tick at least one backend; auto finds the fastest."),
        ("device", not _DEVICE.fullmatch(choice.device), no_device),
    )
    problems |= {field: sentence for field, wrong, sentence in checks if wrong}
    if problems or typed_shapes is None:
        raise ChoiceError(problems)
    gating = {"sparsities": sparsities, "selections": choice.selections, "backends": choice.backends}
    return LatencySpec.model_validate(
        {
            "shapes": presets + typed_shapes,
            "batches": batches,
            "dtypes": choice.dtypes,
            "methods": choice.methods,
            "device": choice.device,
            "repetitions": choice.repetitions,
            "dense_products": choice.dense_products,
            **(gating if gates else {}),
        }
    )


def build_decoding(
    choice: DecodeChoice, source: ModelSource | None, rotation: RotationSpec, method: MethodSpec
) -> DecodeSpec:
    """Return the chosen sweep over decoding. Raise ChoiceError."""
    problems: dict[str, str] = {}
    sparsities = _read(problems, "sparsities", parse_sparsities, choice.sparsities)
    if sparsities == ():
        problems["sparsities"] = "List at least one sparsity in percent, for example 50."
    batches = _read(problems, "batches", parse_batches, choice.batches)
    if batches == ():
        problems["batches"] = "List at least one batch, for example 1."
    if batches and max(batches) > MOST_SEQUENCES:
        problems["batches"] = f"At most {MOST_SEQUENCES} sequences are decoded at once."
    if source is None:
        problems["model"] = "Open a model first."
    if problems:
        raise ChoiceError(problems)
    fields = {
        "model": source,
        "rotation": rotation,
        "method": method,
        "calibration": CalibrationSpec() if method.needs_calibration else None,
        "sparsities": sparsities,
        "batches": batches,
        "prompt_tokens": choice.prompt_tokens,
        "new_tokens": choice.new_tokens,
        "repetitions": choice.repetitions,
        "budget_seconds": choice.budget_seconds,
    }
    try:
        return DecodeSpec.model_validate(fields)
    except ValidationError as error:
        raise ChoiceError({"model": explain(error)}) from error


def _read(problems: dict[str, str], field: str, parse: Callable[[str], _Value], text: str) -> _Value | None:
    """Return a field's value; None if it is invalid, which becomes one of the problems."""
    try:
        return parse(text)
    except WinaError as error:
        problems[field] = str(error)
        return None


@dataclass(frozen=True)
class JobPlan:
    """Points that a job would measure, and the stored points that it is given."""

    missing: int
    points: int
    stored: dict[str, tuple[str, ...]]
    """Hashes of stored points by `Environment.key`."""


def plan_job(
    spec: LatencySpec | DecodeSpec,
    environment: Environment | None,
    find: Callable[[Collection[str]], dict[str, tuple[str, ...]]],
    *,
    again: bool,
) -> JobPlan:
    """Return the plan of the job that measures a sweep: for the button, its title and the engine.

    `environment` is that of timings on the sweep's device. `find` looks hashes up in the store; with `again` it is not
    called.
    """
    # A sweep may name both "auto" and the backend that it comes to: both are one point.
    points = [_resolved(point, environment) for point in spec.points()]
    distinct, _ = missing_points(points, ())
    stored = {} if again else find(distinct)
    _, missing = missing_points(points, stored.get(environment.key, ()) if environment is not None else ())
    return JobPlan(len(missing), len(distinct), stored)


def _resolved(point: LatencyPoint | DecodePoint, environment: Environment | None) -> LatencyPoint | DecodePoint:
    """Return a point with the device's usual backend in place of "auto"."""
    if isinstance(point, DecodePoint) or environment is None:
        return point
    return with_backend(point, AUTO.get(environment.device, "reference"))
