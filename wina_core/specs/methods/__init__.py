"""The registry of methods, and their colours. A method is one class, named here or by the entry point of a package."""

from collections import UserDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from wina_core.errors import WinaError
from wina_core.specs.methods.base import Masks, Method, Variant, method_of
from wina_core.specs.methods.published import Cats, Dense, Larosa, RSparse, Scap, Teal, Wina
from wina_core.specs.plugins import Plugins

if TYPE_CHECKING:
    from wina_core.specs.gates import MethodSpec

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
        # Loaded at once: a package's class that cannot be used counts as absent.
        return name in self.data or (isinstance(name, str) and METHOD_PLUGINS.get(name) is not None)

    def __iter__(self) -> Iterator[str]:
        yield from self.data
        yield from (name for name in METHOD_PLUGINS.names if METHOD_PLUGINS.get(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


METHODS = Methods(_BUILT_IN)
"""In the order in which they are listed."""
METHOD_COLOURS = {
    "wina": "#56B4E9",
    "teal": "#E78160",
    "rsparse": "#E69F00",
    "cats": "#AA4499",
    "scap": "#3A7A10",
    "larosa": "#5B4FC4",
}
"""The paper's hues for its four methods; readers with any colour vision can distinguish the others from them."""


def method_names() -> tuple[str, ...]:
    """Return all names, the dense reference first; no package is loaded."""
    return (*METHODS.data, *METHOD_PLUGINS.names)


def get_method(choice: "MethodSpec") -> Method:
    """Return the chosen method.

    Raises WinaError for an unknown name, and for a variant, a rho or shared masks that the method does not have.
    """
    name = choice.name
    method_class = METHODS.get(name)
    if method_class is None:
        raise METHOD_PLUGINS.unknown(name, method_names())
    method = method_class(choice)
    if choice.variant not in method.variants:
        variants = " or ".join(f'"{variant}"' for variant in method.variants)
        raise WinaError(f'The method "{name}" has no variant "{choice.variant}"; choose {variants}.')
    if choice.variant == "as_released" and choice.masks == "shared":
        raise WinaError(
            f'No released code shares masks between matrices, so "{name}" as released cannot either; choose '
            "separate masks, or another variant."
        )
    if choice.rho is not None and method.default_rho is None:
        low_rank = " or ".join(other.name for other in METHODS.values() if other.default_rho is not None)
        raise WinaError(f'The method "{name}" has no low-rank part; leave rho out, or choose {low_rank}.')
    return method


def method_colour(name: str) -> str:
    """Return the colour of a method, as "#56B4E9"; empty for dense, and for a method without one."""
    method = METHODS.get(name)
    return METHOD_COLOURS.get(name) or ("" if method is None else method.colour)
