"""One file for each page: its view, its controller, and what connects them to the window.

`add(application)` makes the page. The modules are imported one after the other once the window is painted, since they
load pyqtgraph and numpy, which take longer than the frame.
"""

from wina_app.style.translation import tr

PAGES = ("model", "rotation", "sparsity", "evaluate", "latency", "playground", "results", "studies")
"""Every page's key, which is the name of its file here too, in the order of the rail."""


def titles() -> dict[str, str]:
    """What each page is called."""
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
