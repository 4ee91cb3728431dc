"""Functions that torch.compile leaves as they are: they call libraries and keep states that it cannot see."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def uncompiled(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Let a compiled model run a function in Python, between two of its graphs."""

    @wraps(function)
    def called(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        if torch.compiler.is_compiling():  # importing the compiler takes seconds, so that it is wrapped here at first
            return torch.compiler.disable(function)(*args, **kwargs)
        return function(*args, **kwargs)

    return called
