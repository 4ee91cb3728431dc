"""The colour of each method in plots and reports."""

METHOD_COLOURS = {
    "wina": "#56B4E9",
    "teal": "#E78160",
    "rsparse": "#E69F00",
    "cats": "#AA4499",
    "scap": "#3A7A10",
    "larosa": "#5B4FC4",
}
"""The paper's hues for its four methods; readers with any colour vision can distinguish the others from them."""
