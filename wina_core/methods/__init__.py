"""The registry of methods. A method is one class in one file, named here."""

from wina_core.errors import WinaError
from wina_core.methods.base import Masks, Method, MethodChoice, Variant
from wina_core.methods.cats import Cats
from wina_core.methods.dense import Dense
from wina_core.methods.larosa import Larosa
from wina_core.methods.rsparse import RSparse
from wina_core.methods.scap import Scap
from wina_core.methods.teal import Teal
from wina_core.methods.wina import Wina

METHODS: dict[str, type[Method]] = {method.name: method for method in (Dense, Teal, Wina, Cats, RSparse, Scap, Larosa)}
"""By name, in the order in which they are listed."""


def method_names() -> tuple[str, ...]:
    """Return all registered names, the dense reference first."""
    return tuple(METHODS)


def get_method(choice: MethodChoice) -> Method:
    """Return the chosen method.

    Raises WinaError for an unknown name, and for a variant, a rho or shared masks that the method does not have.
    """
    name = choice.name
    if name not in METHODS:
        raise WinaError(f'There is no method "{name}"; choose one of {", ".join(METHODS)}.')
    method = METHODS[name](choice)
    if choice.variant not in method.variants:
        known = " or ".join(f'"{variant}"' for variant in method.variants)
        raise WinaError(f'The method "{name}" has no variant "{choice.variant}"; choose {known}.')
    if choice.variant == "as_released" and choice.masks == "shared":
        raise WinaError(
            f'No released code shares masks between matrices, so "{name}" as released cannot either; choose '
            "separate masks, or another variant."
        )
    if choice.rho is not None and method.default_rho is None:
        others = " or ".join(other.name for other in METHODS.values() if other.default_rho is not None)
        raise WinaError(f'The method "{name}" has no low-rank part; leave rho out, or choose {others}.')
    return method
