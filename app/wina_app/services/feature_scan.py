"""PySide's search of imported modules for its optional features, left out: it takes 0.4 s of 1.5 s of imports."""

import sys


def skip_feature_scan() -> None:
    """Keep PySide from reading the source of every module that is imported from now on.

    It looks for "PySide6" in it, to switch features such as snake_case names by module. Modules of this package have
    none of them, others are ignored. A version of PySide without this search is left as it is.
    """
    feature = sys.modules.get("shibokensupport.feature")
    if feature is not None and hasattr(feature, "_mod_uses_pyside"):
        vars(feature)["_mod_uses_pyside"] = lambda module: module.__name__.startswith("wina_app.")
