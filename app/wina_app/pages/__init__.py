"""Pages of the window, a folder each; its `wire` makes view and controller and connects them."""

PAGES = ("model", "rotation", "sparsity", "evaluate", "latency", "playground", "results", "studies")
"""Keys of all pages, which name their folders, in the order of the rail; capitalized they are titles."""
