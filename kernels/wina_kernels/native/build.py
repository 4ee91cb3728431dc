"""The build of the native library with an installed compiler or ziglang's; nothing but Python's standard library.

    python kernels/wina_kernels/native/build.py

The library lies in `built` beside the sources, named by a hash of the sources, the flags and the kind of machine: a
change in any of them builds anew, and an up-to-date library is kept.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent
FOLDER = SOURCES / "built"
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
)
_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mprefer-vector-width=512")
_X86_FLAGS = {
    "kernels_avx2": _AVX2,
    "kernels_avxvnni": (*_AVX2, "-mavxvnni"),
    "kernels_avx512": _AVX512,
    "kernels_avx512vnni": (*_AVX512, "-mavx512vnni"),
    "many_rows_avx512bf16": (*_AVX512, "-mavx512bf16"),
}
"""Flags of the files that are compiled for one kind of processor alone."""


def library() -> Path:
    """Return the path of the library of these sources, built or not."""
    digest = hashlib.sha256(repr((_FLAGS, _X86_FLAGS, sys.platform, _machine())).encode())
    for file in sorted((*SOURCES.glob("*.h"), *SOURCES.glob("*.cpp"))):
        digest.update(file.name.encode() + file.read_bytes())
    return FOLDER / f"wina-{digest.hexdigest()[:16]}.so"


def build() -> Path:
    """Return the library, built if it is missing; raise OSError with the reason if that fails."""
    target = library()
    if target.exists():
        return target
    command = compiler()
    if not command:
        raise OSError("no C++ compiler was found; install g++, clang++ or the Python package ziglang")
    FOLDER.mkdir(exist_ok=True)
    # On the same file system, since the finished library is renamed into its place.
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        objects = [Path(folder) / f"{source.stem}.o" for source in _sources()]
        commands = [
            [*command, *_FLAGS, *_X86_FLAGS.get(source.stem, ()), "-c", str(source), "-o", str(to)]
            for source, to in zip(_sources(), objects, strict=True)
        ]
        running = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for words in commands]
        outputs = [process.communicate()[0].decode(errors="replace") for process in running]
        for process, output in zip(running, outputs, strict=True):
            _check(process.returncode, output)
        linked = Path(folder) / target.name
        link = [*command, "-shared", "-pthread", *map(str, objects), "-o", str(linked)]
        done = subprocess.run(link, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        _check(done.returncode, done.stdout)
        os.replace(linked, target)
    for old in set(FOLDER.glob("wina-*.so")) - {target}:
        old.unlink(missing_ok=True)
    return target


def compiler() -> list[str]:
    """Return the command of an installed C++ compiler, or of the Python package ziglang; empty if there is neither."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        words = (name or "").split()
        if words and shutil.which(words[0]):
            return words
    if importlib.util.find_spec("ziglang"):
        # Zig compiles for this machine's own processor otherwise, even the kernels that must run on every one.
        return [sys.executable, "-m", "ziglang", "c++", "-mcpu=baseline"]
    return []


def _machine() -> str:
    # Windows and macOS have names of their own for the same processors, AMD64 and arm64.
    return platform.machine().lower().replace("amd64", "x86_64").replace("arm64", "aarch64")


def _sources() -> list[Path]:
    on_x86 = _machine() == "x86_64"
    return [source for source in sorted(SOURCES.glob("*.cpp")) if on_x86 or source.stem not in _X86_FLAGS]


def _check(status: int, output: str) -> None:
    if status:
        errors = [line for line in output.splitlines() if "error" in line] or output.splitlines() or ["no message"]
        raise OSError(f"the compiler stopped at: {errors[0].strip()}")


def main() -> int:
    """Build the library, print its name or the reason of the failure, and return the exit status."""
    try:
        print(f"Native kernels: {build().name}")
    except OSError as error:
        print(f"The native kernels were not built, so products run in PyTorch, more slowly: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
