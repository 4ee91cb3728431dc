"""The step of a package's build that compiles the native kernels into the wheel; if it fails, they stay out."""

import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = Path("kernels/wina_kernels/native/build.py")


class NativeKernels(BuildHookInterface):
    """Build the library and include it; an editable install finds it where it was built."""

    def dependencies(self) -> list[str]:
        """Return ziglang, which contains a C++ compiler, if none is installed.

        It has 400 MB, so it is in the build's environment alone, and only if it is needed.
        """
        build = self._build_module()
        needed = not build.library().exists() and not build.compiler() and sys.platform != "win32"
        return ["ziglang"] if needed else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the library and set the wheel's platform; warn if the build fails."""
        try:
            library = self._build_module().build()
        except OSError as error:
            self.app.display_warning(f"The native kernels were not built; PyTorch does their work: {error}")
            return
        if version == "editable":
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        # py3-none: ctypes loads the library, which no version of Python is linked with.
        build_data.update(pure_python=False, tag=f"py3-none-{platform}")
        build_data["force_include"][str(library)] = f"wina_kernels/native/built/{library.name}"

    def _build_module(self) -> ModuleType:
        # From its file: importing the package needs PyTorch, which the build's environment lacks.
        spec = importlib.util.spec_from_file_location("native_build", Path(self.root) / BUILD)
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        return build
