"""Tests of what Triton compiles: on a GPU where there is one, under Triton's interpreter otherwise.

Triton decides when it is imported whether it interprets, and other tests may import it first: without a GPU,
`test_interpreted.py` runs all that is marked so in one process of its own.
"""

import os
from functools import cache
from inspect import getmembers
from types import ModuleType
from typing import Any

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
runs = pytest.mark.skipif(not INTERPRETED and DEVICE == "cpu", reason="no GPU: test_interpreted.py runs this")

if INTERPRETED:
    from triton.runtime import interpreter

    @cache
    def _builtins(package: ModuleType) -> list[str]:
        return [name for name, _ in getmembers(package, interpreter.tl.core.is_builtin)]

    def _patch_builtin(package: ModuleType, *given: Any) -> None:
        """Do what Triton's own does, which takes a quarter of the tests' time to look for the names at every call."""
        for name in _builtins(package):
            member = getattr(package, name)
            if interpreter.tl.core.is_builtin(member):
                interpreter._patch_attr(package, name, member, *given)

    interpreter._patch_builtin = _patch_builtin
