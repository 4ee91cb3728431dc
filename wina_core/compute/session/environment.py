"""The environment of measurements. It needs torch, which alone knows its accelerator."""

import platform

import torch
from wina_kernels.native import abi
from wina_kernels.tuning import processor_and_threads, versions

from wina_core.files.version import __version__
from wina_core.records import Environment

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "lm-eval", "datasets", "numpy")


def environment() -> Environment:
    """Return the device of "auto" ("cuda" or "cpu"), its name, and the versions that could change a number."""
    # The workbench's version comes from its own code, since an older installation may lie beside it.
    python_and_own = {"python": platform.python_version(), "wina-workbench": __version__}
    versions_in_use = python_and_own | versions(PACKAGES)
    if torch.cuda.is_available():
        return Environment(device="cuda", hardware=torch.cuda.get_device_name(), versions=versions_in_use)
    return Environment(device="cpu", hardware=processor_and_threads(), versions=versions_in_use)


def kernels_notice() -> str:
    """Return sentences on missing C++ kernels and the remedy; empty if they are loaded, or on a GPU."""
    return "" if torch.cuda.is_available() else abi.missing()
