"""The colour of each method in plots and reports."""

from wina_core.specs.methods import METHODS

METHOD_COLOURS = {
    "wina": "#56B4E9",
    "teal": "#E78160",
    "rsparse": "#E69F00",
    "cats": "#AA4499",
    "scap": "#3A7A10",
    "larosa": "#5B4FC4",
}
"""The paper's hues for its four methods; readers with any colour vision can distinguish the others from them."""


def method_colour(name: str) -> str:
    """Return the colour of a method, as "#56B4E9"; empty for dense, and for a method without one."""
    own = METHODS.get(name)
    return METHOD_COLOURS.get(name) or ("" if own is None else own.colour)
