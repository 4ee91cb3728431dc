"""Pages of the window, a folder each; `wire` in its `wiring` makes view and controller and connects them."""

from wina_app.style.translation import tr

PAGES = ("model", "rotation", "sparsity", "evaluate", "latency", "playground", "results", "studies")
"""Keys of all pages, which name their folders, in the order of the rail."""


def titles() -> dict[str, str]:
    names = (
        tr("Model"),
        tr("Rotation"),
        tr("Sparsity"),
        tr("Evaluate"),
        tr("Latency"),
        tr("Playground"),
        tr("Results"),
        tr("Studies"),
    )
    return dict(zip(PAGES, names, strict=True))
