"""The step of a package's build that compiles the native kernels into the wheel; without a compiler they stay out."""

import importlib.util
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = Path("kernels/wina_kernels/native/build.py")


class NativeKernels(BuildHookInterface):
    """Build the library and include it; an editable install finds it where it was built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Set the wheel's platform if there is a library; say so if there is none."""
        spec = importlib.util.spec_from_file_location("native_build", Path(self.root) / BUILD)
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        try:
            library = build.build()
        except OSError as error:
            self.app.display_warning(f"The native kernels were not built; numba's are used: {error}")
            return
        if version == "editable":
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data.update(pure_python=False, tag=f"py3-none-{platform}")
        build_data["force_include"][str(library)] = f"wina_kernels/native/built/{library.name}"
