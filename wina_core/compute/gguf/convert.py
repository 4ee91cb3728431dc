"""GGUF files of Hugging Face folders, written by llama.cpp's own converter in a process of its own."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

from wina_core.compute.models.rotated_folder import read_rotation_file
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.files.own_command import own_command
from wina_core.model_info.model_checks import read_config, read_json
from wina_core.model_info.model_folder import check_folder
from wina_core.records.exports import GgufType

_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
_MAGIC = b"GGUF"
_LOOK_SECONDS = 0.2
"""Interval of checking for a cancellation while the converter works."""


def check_plain(folder: Path) -> None:
    """Raise WinaError unless a folder holds a model that other programs compute exactly, and no code."""
    read_config(folder)
    check_folder(folder)
    rotated = read_rotation_file(folder)
    if rotated and rotated.shortcuts:
        raise WinaError(
            f"The rotation of {folder} ({rotated.rotation.mode}) needs residual shortcuts, which GGUF files cannot "
            "hold; export the model with --rotation global or free."
        )
    for name in ("config.json", "tokenizer_config.json"):
        if (folder / name).is_file() and "auto_map" in read_json(folder / name):
            raise WinaError(
                f"{folder / name} names code of others, which llama.cpp's converter might run; remove auto_map."
            )


def convert(folder: Path, file: Path, converter: Path, kind: GgufType, reporter: Reporter) -> None:
    """Write `file` by llama.cpp's converter; raise WinaError with its reason where it fails, and Cancelled."""
    module = "wina_core.compute.gguf.run_converter"
    reporter.stage("")
    reporter.progress(0, None, "", "converting to GGUF")
    command: list[str | Path] = [*own_command(module), converter, folder, "--outfile", file, "--outtype", kind]
    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **_OFFLINE},
            start_new_session=True,  # so that it ends with what it has started
        ) as process:
            try:
                while process.poll() is None:
                    reporter.check()
                    _wait(process)
            except BaseException:
                _kill(process)
                raise
        log.seek(0)
        lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("[PYI-")]  # the end of any error in a bundle
    if process.returncode:
        reason = lines[-1].removeprefix("ERROR:hf-to-gguf:") if lines else f"exit status {process.returncode}"
        raise WinaError(f"llama.cpp's converter did not convert {folder} ({reason}).")
    if not _is_gguf(file):
        raise WinaError(f"{converter} wrote no GGUF file; get llama.cpp's {converter.name} again.")


def _wait(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(_LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End a process of its own session, with the processes that it has started."""
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _is_gguf(file: Path) -> bool:
    """Return whether a converter wrote a file, no link, of the format."""
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(len(_MAGIC)) == _MAGIC
