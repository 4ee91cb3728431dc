"""Pages of the window, a folder each; `wire` in its `wiring` makes view and controller and connects them."""

PAGES = ("model", "rotation", "sparsity", "evaluate", "latency", "playground", "results", "studies")
"""Keys of all pages, which name their folders, in the order of the rail."""


def titles() -> dict[str, str]:
    names = (
        "Model",
        "Rotation",
        "Sparsity",
        "Evaluate",
        "Latency",
        "Playground",
        "Results",
        "Studies",
    )
    return dict(zip(PAGES, names, strict=True))
