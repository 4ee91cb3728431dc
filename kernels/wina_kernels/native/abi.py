"""The native library in Python: loading, the mirror of `wina.h`, and weights as the library sees them."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from wina_kernels.native.build import library
from wina_kernels.planes import MOST_PLANES, PLANE_BITS, PlaneWeight
from wina_kernels.weights import MOST_RUNS, MixedWeight, QuantizedWeight, WeightT

# WINA_ABI of `wina.h`: a library with another one has other structures and is not used.
ABI = 5
_WORTH_A_THREAD = 1 << 17
"""Bytes of weights, perhaps half of them dropped, whose reading takes as long as waking a thread."""
_FORMATS = {torch.float32: 32, torch.bfloat16: 16, torch.float16: 17}
_OPENMP = ("GOMP_parallel", "omp_get_num_threads", "omp_get_thread_num")


class StoredRun(ctypes.Structure):
    """`wina_run`."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("format", "rows", "group", "scale_format", "zero_format")),
        ("centre", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in ("codes", "scale", "zero")),
        *((name, ctypes.c_int64) for name in ("stride", "scale_stride", "zero_stride")),
    ]


class Planes(ctypes.Structure):
    """`wina_planes`."""

    _fields_ = [
        ("starts", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("ladder", ctypes.c_float * (MOST_PLANES - 1)),
    ]


class Weight(ctypes.Structure):
    """`wina_weight`."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("inputs", "outputs", "runs")),
        ("order", ctypes.c_void_p),
        ("run", StoredRun * MOST_RUNS),
        ("planes", Planes),
    ]


class Gate(ctypes.Structure):
    """`wina_gate`."""

    _fields_ = [
        ("mask", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("threshold", ctypes.c_float),
        ("keep", ctypes.c_int32),
    ]


class Counts(ctypes.Structure):
    """`wina_counts`."""

    _fields_ = [("kept", ctypes.c_int64), ("read", ctypes.c_int64)]


@functools.cache
def loaded() -> ctypes.CDLL | None:
    """Return the library, or None if it is not built, does not load or is switched off by WINA_NATIVE=0."""
    file = library()
    if os.environ.get("WINA_NATIVE") == "0" or not file.exists():
        return None
    try:
        native = ctypes.CDLL(str(file))
    except OSError:  # built for another system
        return None
    native.wina_abi.restype = ctypes.c_int32
    if native.wina_abi() != ABI:
        return None
    native.wina_instructions.restype = ctypes.c_char_p
    native.wina_use_instructions.argtypes = [ctypes.c_char_p]
    native.wina_product.argtypes = [
        ctypes.POINTER(Weight), ctypes.POINTER(Gate), ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32,
        ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(Counts),
    ]  # fmt: skip
    native.wina_gate_rows.argtypes = [
        ctypes.POINTER(Gate), ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p,
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32,
    ]  # fmt: skip
    native.wina_many_rows.argtypes = [
        ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p,
        ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32,
    ]  # fmt: skip
    _share_openmp(native)
    return native


def missing() -> str:
    """Return a sentence on the missing library and one on the remedy; empty if it is loaded or switched off."""
    if os.environ.get("WINA_NATIVE") == "0" or loaded() is not None:
        return ""
    return (
        "The C++ kernels are missing, so gated products run in PyTorch, several times more slowly. Install g++, "
        f"clang++ or the Python package ziglang, then run: {sys.executable} -m wina_kernels.native.build"
    )


def instructions() -> str | None:
    """Return the name of the instruction set in use, None without the library."""
    native = loaded()
    return None if native is None else native.wina_instructions().decode()


def _share_openmp(native: ctypes.CDLL) -> None:
    """Let the library work on torch's threads if they are OpenMP's: two pools would spin on the same cores."""
    for file in sorted((Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*")):
        try:
            openmp = ctypes.CDLL(str(file))  # its symbols include those of the libraries that it uses
            functions = [ctypes.cast(getattr(openmp, name), ctypes.c_void_p) for name in _OPENMP]
        except (OSError, AttributeError):
            continue
        native.wina_use_openmp.argtypes = [ctypes.c_void_p] * 3
        native.wina_use_openmp(*functions)
        return


def format_of(dtype: torch.dtype) -> int:
    return _FORMATS[dtype]


def most_threads(read: int) -> int:
    """Return the most threads that are worth waking to read so many bytes of weights."""
    return 1 + read // _WORTH_A_THREAD


class StoredWeight:
    """A weight as the library sees it; holds the memory that it points to."""

    def __init__(self, weight_t: WeightT | PlaneWeight) -> None:
        runs: Sequence[Tensor | QuantizedWeight | PlaneWeight] = (
            weight_t.runs if isinstance(weight_t, MixedWeight) else (weight_t,)
        )
        order = weight_t.order if isinstance(weight_t, MixedWeight) else None
        self.inputs, self.outputs = weight_t.shape
        read = sum(run.nbytes if isinstance(run, Tensor) else run.codes.nbytes for run in runs)
        self.threads = most_threads(read)
        self.weight = Weight(
            self.inputs, self.outputs, len(runs), address(order), (StoredRun * MOST_RUNS)(*map(_run, runs))
        )
        starts = None
        if isinstance(weight_t, PlaneWeight):
            # One start more than inputs: the next input's start is the end of an input's planes.
            starts = torch.cat((weight_t.starts, weight_t.starts.new_tensor([len(weight_t.codes)]))).int()
            ladder = (ctypes.c_float * (MOST_PLANES - 1))(*weight_t.ladder)
            self.weight.planes = Planes(address(starts), weight_t.scale.data_ptr(), ladder)
        self._held = (weight_t, order, starts)
        self.address = ctypes.byref(self.weight)


def _run(run: Tensor | QuantizedWeight | PlaneWeight) -> StoredRun:
    if isinstance(run, PlaneWeight):
        rows = len(run.codes)
        return StoredRun(
            PLANE_BITS, rows, max(rows, 1), 0, 0, 1.5, run.codes.data_ptr(), None, None, run.codes.stride(0), 0, 0
        )
    if isinstance(run, Tensor):
        n = len(run)
        stride = run.stride(0) * run.element_size()
        # One group for all rows, and at least 1, because the library divides by its size.
        return StoredRun(format_of(run.dtype), n, max(n, 1), 0, 0, 0.0, run.data_ptr(), None, None, stride, 0, 0)
    scale, zero, half = run.scale, run.zero, 1 << (run.bits - 1)
    return StoredRun(
        run.bits, run.shape[0], run.group,
        format_of(scale.dtype), 0 if zero is None else format_of(zero.dtype), half if run.signed else 0.0,
        run.codes.data_ptr(), scale.data_ptr(), address(zero),
        run.codes.stride(0), _stride(scale), 0 if zero is None else _stride(zero),
    )  # fmt: skip


def _stride(matrix: Tensor) -> int:
    return matrix.stride(0) * matrix.element_size()


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
