"""The accelerators and the units of the processor that this program may use, listed without torch."""

import os
import platform
import re
import subprocess
from functools import cache
from pathlib import Path

_PATIENCE_SECONDS = 5.0
"""Timeout of a tool that lists devices; one that hangs must not keep the window from opening."""
BF16_VARIABLE = "WINA_BF16"
"""Environment variable with "yes" or "no": whether the processor has units for bfloat16, where no system says it."""
_CPU = Path("/proc/cpuinfo")
_BF16_FLAGS = {"flags": {"avx512_bf16", "amx_bf16"}, "Features": {"bf16"}}
"""Flags of processors with units for bfloat16, by the name of the line: of x86 and of Arm."""


@cache  # it does not change
def has_bf16_units() -> bool | None:
    """Return whether the processor multiplies bfloat16 numbers by units of its own; None where the system does not say.

    `BF16_VARIABLE` comes first. Without units, PyTorch's products of bfloat16 matrices are a hundred times slower than
    those of float32.
    """
    if (named := os.environ.get(BF16_VARIABLE)) in ("yes", "no"):
        return named == "yes"
    if platform.system() == "Darwin":
        return _output("sysctl", "-n", "hw.optional.arm.FEAT_BF16").strip() == "1"
    try:
        return bf16_in(_CPU.read_text(encoding="utf-8", errors="replace"))
    except OSError:  # another system
        return None


def bf16_in(description: str) -> bool | None:
    """Return whether the text of /proc/cpuinfo names units for bfloat16; None if it has no line of flags."""
    for line in description.splitlines():
        name, _, flags = line.partition(":")
        if (units := _BF16_FLAGS.get(name.strip())) is not None:
            return bool(units & set(flags.split()))
    return None


def visible_devices() -> tuple[str, ...]:
    """Return the CUDA devices that child processes see, as CUDA_VISIBLE_DEVICES names them."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return chosen_devices(chosen)
    return _driver_devices()


@cache  # the driver takes up to seconds to answer
def _driver_devices() -> tuple[str, ...]:
    return listed_devices(_output("nvidia-smi", "-L"))


def chosen_devices(value: str) -> tuple[str, ...]:
    """Return the devices of a CUDA_VISIBLE_DEVICES, up to the first entry that is none ("-1")."""
    found: list[str] = []
    for name in (part.strip() for part in value.split(",")):
        if not name or name.startswith("-"):
            break
        found.append(name)
    return tuple(found)


def listed_devices(listing: str) -> tuple[str, ...]:
    """Return the identifiers in the output of `nvidia-smi -L`; MIG instances replace the GPU that they split."""
    found: list[str] = []
    for line in listing.splitlines():
        match = re.search(r"UUID: ((?:GPU|MIG)-[^)\s]+)", line)
        if match is None:
            continue
        if match[1].startswith("MIG-") and found and found[-1].startswith("GPU-"):
            found.pop()
        found.append(match[1])
    return tuple(found)


def _output(*command: str) -> str:
    """Return the output of a tool; empty if it is missing, fails or does not answer."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
