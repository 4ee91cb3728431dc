"""WINA Workbench's core: activation-sparsity methods, rotations, evaluation, the results store and the engine.

The names in `__all__` are the public API. Each is imported when it is first used, so that `import wina_core` is fast
and loads no torch. Modules below may change with every version.
"""

_MODULES = {
    "Model": "api.model",
    "open_model": "api.model",
    "fetch_model": "api.model",
    "rotate": "api.model",
    "quantize": "api.model",
    "calibrate": "api.planning",
    "allocate": "api.planning",
    "allocate_jointly": "api.planning",
    "gate": "api.measuring",
    "measure": "api.measuring",
    "run_study": "api.studies",
    "query_results": "api.stored",
    "frontier_figure": "api.figures",
    "heatmap_figure": "api.figures",
    "export_model": "api.export",
    "WinaError": "errors",
    "__version__": "files.version",
}
"""Module of each public name; `__init__.pyi` has their types."""

__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    """Import a public name (PEP 562)."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
