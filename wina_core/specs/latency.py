"""Latency sweeps: products of given shapes, and a model's decoding."""

import re
from collections.abc import Container, Iterable
from itertools import product
from typing import Annotated, Literal, Self, TypeVar, get_args

from pydantic import Field, field_validator, model_validator

from wina_core.errors import WinaError
from wina_core.specs import (
    DENSE,
    NO_ROTATION,
    CalibrationSpec,
    Configuration,
    Fraction,
    MethodSpec,
    ModelSource,
    RotationSpec,
    Spec,
)
from wina_core.specs.base import SpecPart

LatencyMethod = Literal["dense", "teal", "wina", "rsparse"]
LatencySelection = Literal["threshold", "topk"]
LatencyDType = Literal["float32", "bfloat16", "float16"]
BackendName = Literal["reference", "native", "triton", "dispatched"]
"""Names of `wina_kernels.backends`; "dispatched" leaves the choice, the dense product included, to `wina_kernels`."""
DISPATCHED: BackendName = "dispatched"
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)
StoredBackend = Literal["auto", BackendName, "cpu"]
""""cpu", loops that numba compiled, is gone; studies and points of older versions still name it."""

VENDOR: Literal["torch"] = "torch"
"""PyTorch's dense product by its vendor's library, timed beside every other product."""
DenseProduct = Literal["auto", "torch-int8", "int8", "int4"]
"""Further dense products: our kernel at 0 % ("auto", that of the device), PyTorch's product with INT8 weights, and our
kernels with INT8 and INT4 weights."""
DENSE_PRODUCTS: tuple[DenseProduct, ...] = get_args(DenseProduct)
QUANTIZED_BITS: dict[str, int] = {"torch-int8": 8, "int8": 8, "int4": 4}
"""Bits of a weight in the dense products that quantize."""
FEW_ROWS = 8
"""Largest batch of our kernels (`wina_kernels.dense.MOST_ROWS`); above it they call PyTorch's dense product."""
AUTO: dict[str, BackendName] = {"cpu": "native", "cuda": "triton"}
"""The backend that "auto" usually comes to, by type of device."""
DTYPE_BYTES: dict[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
STEADY = 1.2
"""Largest p90 / p10, and largest disagreement of medians of one product, of a stable timing."""
BUDGET_SECONDS = 45.0
"""Usual time budget of a point of decoding, for the command line and the window."""
LEAST_REPETITIONS = 3
"""Repetitions that a time budget leaves: fewer say nothing about their spread."""
LEAST_TOKENS = 8
"""New tokens that a time budget leaves."""
MAX_POINTS = 20_000
_LARGEST = 2**20
_Size = Annotated[int, Field(ge=1, le=_LARGEST)]
_Batch = Annotated[int, Field(ge=1, le=2**14)]
MOST_SEQUENCES = 64
"""Largest batch of decoding."""
_DecodeBatch = Annotated[int, Field(ge=1, le=MOST_SEQUENCES)]
_Repetitions = Annotated[int, Field(ge=1, le=10_000)]
_Budget = Annotated[float, Field(gt=0.0, le=86_400.0)]
_Point = TypeVar("_Point", bound=Spec)
_SHAPE = re.compile(r"\s*([0-9]+)\s*[x×]\s*([0-9]+)\s*", re.IGNORECASE)


class Shape(SpecPart):
    """The shape of a matrix W [m, n] and the operations with such a matrix."""

    op: str = Field(default="linear", min_length=1)
    """For example "llama-3-8b q, o"; no number depends on it."""
    outputs: _Size
    inputs: _Size

    @property
    def label(self) -> str:
        """Return for example "4096x11008", outputs first."""
        return f"{self.outputs}x{self.inputs}"


def parse_shape(text: str) -> Shape:
    """Return the shape written "outputs x inputs", as 5120x17920; WinaError for other texts and sizes."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise WinaError(f'"{text}" is not a shape; write outputs x inputs, two whole numbers from 1, as 5120x17920.')
    # Their length is checked first: Python reads no number of thousands of digits.
    if any(
        len(digits.lstrip("0")) > len(str(_LARGEST)) or not 1 <= int(digits) <= _LARGEST for digits in match.groups()
    ):
        raise WinaError(f"The shape {text.strip()} is not possible; both sizes must be 1 to {_LARGEST:,}.")
    return Shape(outputs=int(match[1]), inputs=int(match[2]))


def _projections(model: str, hidden: int, intermediate: int, key_value: int) -> tuple[Shape, ...]:
    """Return the shapes of a decoder layer's projections, also of q, k, v and of gate, up stacked."""
    sizes = {
        "q": (hidden, hidden),
        "k": (key_value, hidden),
        "v": (key_value, hidden),
        "o": (hidden, hidden),
        "gate": (intermediate, hidden),
        "up": (intermediate, hidden),
        "down": (hidden, intermediate),
        "qkv": (hidden + 2 * key_value, hidden),
        "gate+up": (2 * intermediate, hidden),
    }
    names = {size: ", ".join(name for name, shape in sizes.items() if shape == size) for size in sizes.values()}
    return tuple(Shape(op=f"{model} {op}", outputs=m, inputs=n) for (m, n), op in names.items())


PRESETS: dict[str, tuple[Shape, ...]] = {
    "paper": (
        Shape(op="paper", outputs=4096, inputs=11008),
        Shape(op="paper", outputs=5120, inputs=17920),
    ),
    "llama-2-7b": _projections("llama-2-7b", 4096, 11008, 4096),
    "llama-3-8b": _projections("llama-3-8b", 4096, 14336, 1024),
    "mistral-7b": _projections("mistral-7b", 4096, 14336, 1024),
    "phi-4-14b": _projections("phi-4-14b", 5120, 17920, 1280),
    "qwen2.5-7b": _projections("qwen2.5-7b", 3584, 18944, 512),
}
"""The shapes of the paper's hardware figure, and of models in its and related evaluations."""


def preset(name: str) -> tuple[Shape, ...]:
    """Return the shapes of that name; WinaError with the known names for any other."""
    if name not in PRESETS:
        raise WinaError(f'There is no preset "{name}"; choose one of {", ".join(PRESETS)}, or give shapes.')
    return PRESETS[name]


class LatencyPoint(Spec):
    """One product y = W x, dense or gated, timed on its own."""

    outputs: _Size
    inputs: _Size
    batch: _Batch
    """Rows of x."""
    dtype: LatencyDType
    method: LatencyMethod
    """`rsparse` adds a low-rank part at its default rho to TEAL's mask; `wina` scores by column norms."""
    selection: LatencySelection
    sparsity: Fraction
    backend: Literal["torch", StoredBackend, DenseProduct]
    """"torch" and the quantized ones for the dense method, and only for it."""
    repetitions: _Repetitions

    @property
    def shape(self) -> Shape:
        return Shape(outputs=self.outputs, inputs=self.inputs)

    @property
    def label(self) -> str:
        """Return a line for progress, for example "wina 50 %, 5120x17920, batch 1, bfloat16, native"."""
        method = self.method if self.method == DENSE.name else f"{self.method} {100 * self.sparsity:.4g} %"
        return f"{method}, {self.shape.label}, batch {self.batch}, {self.dtype}, {self.backend}"


class LatencySpec(Spec):
    """A grid of products: shapes x dtypes x batches x methods x selections x sparsities x backends."""

    shapes: tuple[Shape, ...] = Field(min_length=1)
    batches: tuple[_Batch, ...] = Field(default=(1, 4, 16, 64, 256), min_length=1)
    dtypes: tuple[LatencyDType, ...] = Field(default=("bfloat16",), min_length=1)
    methods: tuple[LatencyMethod, ...] = Field(default=("dense", "wina"), min_length=1)
    selections: tuple[LatencySelection, ...] = Field(default=("threshold",), min_length=1)
    sparsities: tuple[Fraction, ...] = Field(default=(0.0, 0.25, 0.4, 0.5, 0.65), min_length=1)
    backends: tuple[StoredBackend, ...] = Field(default=("auto",), min_length=1)
    """"auto": the first that works on the device, the fastest first."""
    device: str = "auto"
    """"auto", "cpu", "cuda" or "cuda:1"."""
    repetitions: _Repetitions = 20
    dense_products: tuple[DenseProduct, ...] = DENSE_PRODUCTS
    """Dense products to measure besides PyTorch's, if "dense" is among the methods: the strongest is the baseline that
    a speed-up must be judged by."""

    @field_validator("shapes")
    @classmethod
    def _distinct(cls, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Join the names of operations with one shape, which is measured once."""
        names: dict[tuple[int, int], dict[str, None]] = {}
        for shape in shapes:
            names.setdefault((shape.outputs, shape.inputs), {})[shape.op] = None
        return tuple(Shape(op="; ".join(ops), outputs=m, inputs=n) for (m, n), ops in names.items())

    def op_of(self, point: LatencyPoint) -> str:
        size = point.outputs, point.inputs
        return next(shape.op for shape in self.shapes if (shape.outputs, shape.inputs) == size)

    def points(self) -> tuple[LatencyPoint, ...]:
        """Return the grid's points, each once, those with the same weights together.

        A dense product is one point for all sparsities and selections; our kernels' are left out where the batch
        exceeds FEW_ROWS. Raises WinaError for more than MAX_POINTS.
        """
        gated = len(self.methods) * len(self.selections) * len(self.sparsities) * len(self.backends)
        count = len(self.shapes) * len(self.batches) * len(self.dtypes) * gated
        if count > MAX_POINTS:
            raise WinaError(f"This sweep has {count:,} points, more than {MAX_POINTS:,}; split it up.")
        names = ("method", "selection", "backend", "sparsity")
        settings: list[tuple[str, str, str, float]] = []
        if DENSE.name in self.methods:
            settings += [(DENSE.name, "threshold", backend, 0.0) for backend in (VENDOR, *self.dense_products)]
        gates = [method for method in self.methods if method != DENSE.name]
        settings += product(gates, self.selections, self.backends, self.sparsities)
        points = (
            LatencyPoint.model_validate(
                dict(zip(names, setting, strict=True))
                | {"outputs": shape.outputs, "inputs": shape.inputs, "batch": batch, "dtype": dtype}
                | {"repetitions": self.repetitions}
            )
            for shape, dtype, batch in product(self.shapes, self.dtypes, self.batches)
            for setting in settings
            # Above FEW_ROWS, our kernels call PyTorch's product, which is a point of its own.
            if batch <= FEW_ROWS or setting[0] != DENSE.name or setting[2] in (VENDOR, "torch-int8")
        )
        return tuple({point.content_hash(): point for point in points}.values())

    def hashes(self) -> frozenset[str]:
        """Return the hashes of all points that this sweep may measure, for any choice of "auto"."""
        return frozenset(with_backend(point, backend).content_hash() for point in self.points() for backend in BACKENDS)


def with_backend(point: LatencyPoint, auto: BackendName) -> LatencyPoint:
    return point.model_copy(update={"backend": auto}) if point.backend == "auto" else point


def missing_points(points: Iterable[_Point], stored: Container[str]) -> tuple[dict[str, _Point], list[_Point]]:
    """Return the distinct points by hash, and those that are not stored, which a sweep measures.

    Resolve "auto" first: a sweep may name both "auto" and the backend that it comes to.
    """
    distinct = {point.content_hash(): point for point in points}
    return distinct, [point for name, point in distinct.items() if name not in stored]


class _Decoding(Spec):
    """The settings of a decoding measurement but for the sparsity."""

    model: ModelSource
    rotation: RotationSpec = NO_ROTATION
    method: MethodSpec = MethodSpec(name="wina")
    calibration: CalibrationSpec | None = None
    """For methods whose selection needs one."""
    prompt_tokens: int = Field(default=64, ge=64, le=2**17)
    """Prompt tokens, from the demo's held-out text; not part of the time."""
    new_tokens: int = Field(default=64, ge=2, le=2**17)
    repetitions: _Repetitions = 5
    budget_seconds: _Budget | None = None
    """Time of a point, the dense model included. Repetitions beyond it are left out, but for LEAST_REPETITIONS; if
    those exceed it, they have fewer new tokens, but for LEAST_TOKENS. None: all are timed, as before there was one."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.method.name == DENSE.name:
            raise ValueError("dense decoding is measured beside every method; choose a method that gates")
        self.method.check_calibration(self.calibration)
        return self

    @property
    def configuration(self) -> Configuration:
        return Configuration(rotation=self.rotation, method=self.method)


class DecodePoint(_Decoding):
    """Greedy decoding by one gated model and by the dense one."""

    sparsity: Fraction
    batch: _DecodeBatch = 1
    """Sequences at once."""

    @property
    def label(self) -> str:
        """Return a line for progress, for example "wina, global + heads, 50 %, batch 2"."""
        batch = f", batch {self.batch}" if self.batch > 1 else ""
        return f"{self.configuration.label}, {100 * self.sparsity:.4g} %{batch}"


class DecodeSpec(_Decoding):
    """Decoding by one model, rotation and method at several uniform sparsities and batches."""

    sparsities: tuple[Fraction, ...] = Field(default=(0.5,), min_length=1)
    batches: tuple[_DecodeBatch, ...] = Field(default=(1,), min_length=1)

    def points(self) -> tuple[DecodePoint, ...]:
        """Return a point for each distinct sparsity and batch, the batches of a sparsity together."""
        common = self.model_dump(exclude={"sparsities", "batches"})
        grid = product(dict.fromkeys(self.sparsities), dict.fromkeys(self.batches))
        return tuple(
            DecodePoint.model_validate({**common, "sparsity": sparsity, "batch": batch}) for sparsity, batch in grid
        )

    def hashes(self) -> frozenset[str]:
        return frozenset(point.content_hash() for point in self.points())
