"""One file for each page: its view, its controller, and what connects them to the window.

`add(application)` makes the page. The modules are imported one after the other once the window is painted, since they
load pyqtgraph and numpy, which take longer than the frame.
"""

PAGES = {
    "model": "Model",
    "rotation": "Rotation",
    "sparsity": "Sparsity",
    "evaluate": "Evaluate",
    "latency": "Latency",
    "playground": "Playground",
    "results": "Results",
    "studies": "Studies",
}
"""Every page's key, which is the name of its file here too, and its title, in the order of the rail."""
