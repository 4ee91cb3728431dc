"""Replacement of the engine of a test's machine by the file in FAKE_ENGINE; Python imports this module at its start."""

import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location


class _Finder:
    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> "ModuleSpec | None":
        return spec_from_file_location(name, os.environ["FAKE_ENGINE"]) if name == "wina_core.engine.__main__" else None


sys.meta_path.insert(0, _Finder)
