"""WINA Workbench's core: activation-sparsity methods, rotations, evaluation, the results store and the engine.

The names in `__all__` are the public API. Each is imported when it is first used, so that `import wina_core` is fast
and loads no torch. Modules below may change with every version.
"""

__version__ = "0.1.0"

_MODULES = {
    "Model": "model",
    "open_model": "model",
    "rotate": "model",
    "quantize": "model",
    "calibrate": "planning",
    "allocate": "planning",
    "gate": "gating",
    "measure": "measuring",
    "run_study": "measuring",
    "query_results": "stored",
    "frontier_figure": "figures",
    "heatmap_figure": "figures",
    "export_model": "export",
}
"""Module of `wina_core.api` of each public name; `__init__.pyi` has their types."""

__all__ = ["WinaError", "__version__", *_MODULES]


def __getattr__(name: str) -> object:
    """Import a public name (PEP 562)."""
    from importlib import import_module

    if name == "WinaError":
        return import_module("wina_core.errors").WinaError
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"wina_core.api.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
