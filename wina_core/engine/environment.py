"""What the numbers are computed on. Needs torch, which alone knows the accelerator that it will use."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from wina_core.records import Environment

PACKAGES = ("wina-workbench", "torch", "transformers", "tokenizers", "safetensors", "lm-eval", "datasets", "numpy")


def environment() -> Environment:
    """The device that "auto" stands for ("cuda" or "cpu"), its name, and the versions that could change a number."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # run from a checkout that was not installed
            continue
    if torch.cuda.is_available():
        return Environment(device="cuda", hardware=torch.cuda.get_device_name(), versions=versions)
    return Environment(device="cpu", hardware=f"{processor()}, {os.cpu_count()} threads", versions=versions)


def processor() -> str:
    """The processor's model name where the platform tells it, else its architecture."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:  # not Linux
        names = []
    return names[0] if names else platform.processor() or platform.machine()
