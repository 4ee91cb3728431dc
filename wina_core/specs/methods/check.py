"""Check of a package's method before it is listed."""

import re
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import get_args

from wina_core.errors import WinaError
from wina_core.specs.methods.base import BLOCKS, Masks, Method, Variant

_COLOUR = re.compile(r"(#[0-9a-fA-F]{6})?")


def method_of(name: str, point: EntryPoint) -> type[Method]:
    """Import the class that an entry point names, and call what the window and the estimates call.

    Raises WinaError for anything but a fitting class, and whatever its code raises.
    """
    found = point.load()
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise WinaError(f"{point.value} is no subclass of wina_core.specs.methods.Method")
    if getattr(found, "name", None) != name or not getattr(found, "summary", ""):
        raise WinaError(f'the class {found.__name__} needs name = "{name}" and a summary')
    if not _COLOUR.fullmatch(found.colour):
        raise WinaError(f'its colour is "{found.colour}", not of the form "#0072B2"')
    if not found.variants or not set(found.variants) <= set(get_args(Variant)):
        raise WinaError(f"its variants are {found.variants}, not some of {get_args(Variant)}")
    for variant in found.variants:
        for masks in get_args(Masks):
            _call(found(SimpleNamespace(name=name, variant=variant, masks=masks, rho=None)))
    return found


def _call(method: Method) -> None:
    for block in BLOCKS:
        for name in block:
            norms = method.norms_of(name, block, fused=False)
            if not isinstance(norms, tuple) or not set(norms) <= set(block):
                raise WinaError(f"its norms_of({name!r}, ...) is {norms!r}, not a tuple of some of {block}")
            if not 0 <= method.cell_target(name, 0.5) <= 1:
                raise WinaError(f"its cell_target({name!r}, 0.5) is no fraction")
            method.gates(name)
            method.rank(name, (8, 8), 0.5, None)
    if not 1 <= method.kept(8, 0.5) <= 8 or not 0 <= method.mask_sparsity(0.5, None) <= 1:
        raise WinaError("it keeps no number of inputs from 1 to all at a sparsity of 0.5")
