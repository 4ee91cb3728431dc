"""The registry of methods. A method is one class in one file, named here or by the entry point of a package."""

from collections import UserDict
from collections.abc import Iterator

from wina_core.errors import WinaError
from wina_core.specs.methods.base import Masks, Method, MethodChoice, Variant
from wina_core.specs.methods.cats import Cats
from wina_core.specs.methods.check import method_of
from wina_core.specs.methods.dense import Dense
from wina_core.specs.methods.larosa import Larosa
from wina_core.specs.methods.rsparse import RSparse
from wina_core.specs.methods.scap import Scap
from wina_core.specs.methods.teal import Teal
from wina_core.specs.methods.wina import Wina
from wina_core.specs.plugins import Plugins

_BUILT_IN: dict[str, type[Method]] = {
    method.name: method for method in (Dense, Teal, Wina, Cats, RSparse, Scap, Larosa)
}
METHOD_PLUGINS = Plugins("method", _BUILT_IN, method_of)


class Methods(UserDict[str, type[Method]]):
    """The methods by name: the built-in ones, and those of packages, each loaded when it is first read."""

    def __missing__(self, name: str) -> type[Method]:
        method = METHOD_PLUGINS.get(name)
        if method is None:
            raise KeyError(name)
        return method

    def __contains__(self, name: object) -> bool:
        return name in self.data or (isinstance(name, str) and METHOD_PLUGINS.get(name) is not None)

    def __iter__(self) -> Iterator[str]:
        yield from self.data
        yield from (name for name in METHOD_PLUGINS.names if METHOD_PLUGINS.get(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


METHODS = Methods(_BUILT_IN)
"""In the order in which they are listed."""


def method_names() -> tuple[str, ...]:
    """Return all names, the dense reference first; no package is loaded."""
    return (*METHODS.data, *METHOD_PLUGINS.names)


def get_method(choice: MethodChoice) -> Method:
    """Return the chosen method.

    Raises WinaError for an unknown name, and for a variant, a rho or shared masks that the method does not have.
    """
    name = choice.name
    known = METHODS.get(name)
    if known is None:
        raise METHOD_PLUGINS.unknown(name, method_names())
    method = known(choice)
    if choice.variant not in method.variants:
        variants = " or ".join(f'"{variant}"' for variant in method.variants)
        raise WinaError(f'The method "{name}" has no variant "{choice.variant}"; choose {variants}.')
    if choice.variant == "as_released" and choice.masks == "shared":
        raise WinaError(
            f'No released code shares masks between matrices, so "{name}" as released cannot either; choose '
            "separate masks, or another variant."
        )
    if choice.rho is not None and method.default_rho is None:
        others = " or ".join(other.name for other in METHODS.values() if other.default_rho is not None)
        raise WinaError(f'The method "{name}" has no low-rank part; leave rho out, or choose {others}.')
    return method
