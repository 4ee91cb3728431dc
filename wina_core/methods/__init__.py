"""The registry of gate rules. A method is one class in one file, named here. Light: importing it loads no torch."""

from wina_core.errors import WinaError
from wina_core.methods.base import Method
from wina_core.methods.cats import Cats
from wina_core.methods.dense import Dense
from wina_core.methods.larosa import Larosa
from wina_core.methods.rsparse import RSparse
from wina_core.methods.scap import Scap
from wina_core.methods.teal import Teal
from wina_core.methods.wina import Wina
from wina_core.specs import MethodSpec

METHODS: dict[str, type[Method]] = {method.name: method for method in (Dense, Teal, Wina, Cats, RSparse, Scap, Larosa)}
"""By name, in the order in which they are listed."""

__all__ = ["METHODS", "Method", "get_method", "method_names", "method_specs"]


def method_names() -> tuple[str, ...]:
    """All registered names, the dense reference first."""
    return tuple(METHODS)


def method_specs() -> tuple[MethodSpec, ...]:
    """All methods in each of their variants, the dense reference first."""
    return tuple(MethodSpec(name=name, variant=each) for name, method in METHODS.items() for each in method.variants)


def get_method(spec: MethodSpec) -> Method:
    """The method a spec names; WinaError with the known names when there is none, and for a variant, a rho or shared
    masks that it does not have."""
    if spec.name not in METHODS:
        raise WinaError(f'There is no method "{spec.name}"; choose one of {", ".join(METHODS)}.')
    method = METHODS[spec.name](spec)
    if spec.variant not in method.variants:
        known = " or ".join(f'"{variant}"' for variant in method.variants)
        raise WinaError(f'The method "{spec.name}" has no variant "{spec.variant}"; choose {known}.')
    if spec.variant == "as_released" and spec.masks == "shared":
        raise WinaError(
            f'No released code shares masks between matrices, so "{spec.name}" as released cannot either; choose '
            "separate masks, or another variant."
        )
    if spec.rho is not None and method.default_rho is None:
        others = " or ".join(name for name, other in METHODS.items() if other.default_rho is not None)
        raise WinaError(f'The method "{spec.name}" has no low-rank part; leave rho out, or choose {others}.')
    return method
