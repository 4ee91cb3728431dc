"""The workbench's folders, after the platform's conventions, and llama.cpp's converter on this computer.

WINA_HOME puts data, cache, config and log under one folder instead, for tests and portable installs.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

import platformdirs

from wina_core.errors import WinaError
from wina_core.files.user_file import is_ordinary

_NAME = "wina-workbench"
_PLATFORM = platformdirs.PlatformDirs(_NAME, appauthor=False)
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


Kind = Literal["data", "cache", "config", "log"]


def _folder(kind: Kind) -> Path:
    """Return the folder, created if missing and closed to other users. Raises WinaError if it cannot be created.

    Settings, logs and results contain the user's prompts. Files that the user names, such as a database in
    WINA_DATABASE, have the permissions of the umask instead.
    """
    folder = _base_folder(kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.name == "posix":
            status = folder.stat()
            # A folder of another user stays as it is: chmod would fail.
            if status.st_mode & _OF_OTHERS and status.st_uid == os.geteuid():
                folder.chmod(stat.S_IRWXU)
    except OSError as error:
        raise WinaError(
            f"The folder {folder} cannot be created ({error.strerror}); make it writable or set WINA_HOME to another "
            "folder."
        ) from error
    return folder


def _base_folder(kind: Kind) -> Path:
    home = os.environ.get("WINA_HOME")
    return Path(home) / kind if home else Path(getattr(_PLATFORM, f"user_{kind}_dir"))


def what_is_at(path: Path) -> Literal["folder", "file", "nothing"]:
    """Return the kind of a user's path; raise WinaError for an unreadable or special file.

    `Path.is_file` and similar methods raise OSError for an unreadable path.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        name = str(path) if len(str(path)) <= 100 else f"{str(path)[:100]}..."
        raise WinaError(f"{name!r} cannot be read ({cause}); check the path.") from error
    if not is_ordinary(status):
        raise WinaError(f"{path} is a pipe, a device or the like, which is not opened; choose a file or folder.")
    return "folder" if stat.S_ISDIR(status.st_mode) else "file"


def check_new_folder(folder: Path) -> None:
    """Raise WinaError if `folder` exists and is not empty, or cannot be made, before hours of computing go into it."""
    kind = what_is_at(folder)
    with _refusal(folder):
        if kind == "file" or (kind == "folder" and any(folder.iterdir())):
            raise WinaError(f"{folder} already exists and is not an empty folder; choose another name.")
        _check_writable(folder)


def check_new_file(file: Path) -> None:
    """Raise WinaError if `file` exists or cannot be made, before hours of computing go into it."""
    if what_is_at(file) != "nothing":
        raise WinaError(f"{file} already exists; choose another name.")
    with _refusal(file):
        _check_writable(file)


def _check_writable(path: Path) -> None:
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    # Tried, since permissions alone do not decide.
    os.rmdir(tempfile.mkdtemp(prefix=".wina-", dir=parent))


@contextmanager
def _refusal(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WinaError(f"{path} cannot be made ({error.strerror}); choose a folder that you may write to.") from error


def data_folder() -> Path:
    return _folder("data")


def cache_folder() -> Path:
    """Return the folder of calibrations and rotation matrices, named by their specs' hashes; safe to delete."""
    return _folder("cache")


def config_folder() -> Path:
    return _folder("config")


def log_folder() -> Path:
    return _folder("log")


def database() -> str | Path:
    """Return the database, an SQLAlchemy URL or a file: WINA_DATABASE if set, else a file in the data folder."""
    if named := os.environ.get("WINA_DATABASE"):
        return named
    with suppress(WinaError):  # opening the database reports it, with another way out
        data_folder()
    return _base_folder("data").absolute() / "results.sqlite"


SECRETS = ("password", "sslpassword")
"""Parameters of a PostgreSQL address that are passwords."""


def has_password(address: str) -> bool:
    """Return whether an address contains a password, so that it is stored nowhere."""
    try:
        url = urlsplit(address)
    except ValueError:  # an invalid address, which opening the database reports
        return False
    return "://" in address and (url.password is not None or not parse_qs(url.query).keys().isdisjoint(SECRETS))


def resources_folder() -> Path:
    """Return the shipped resources: beside the packages in a checkout, inside wina_core in an installed wheel."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent / "resources"
    return checkout if checkout.is_dir() else package / "_resources"


CONVERTER = "convert_hf_to_gguf.py"
VARIABLE = "LLAMA_CPP"


def find_converter(converter: Path | None) -> Path:
    """Return llama.cpp's converter: the file `converter`, the one in that folder or in VARIABLE's, or on the PATH.

    Raises WinaError if it is not there.
    """
    named = converter or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is None:
        program = shutil.which(CONVERTER)
        if program is None:
            raise WinaError(
                f"{CONVERTER} is not on the PATH; get llama.cpp's sources, which contain it, and name their folder by "
                f"--converter or {VARIABLE}."
            )
        return Path(program)
    file = named.expanduser() / CONVERTER if named.expanduser().is_dir() else named.expanduser()
    if not file.is_file():
        raise WinaError(f"There is no converter {file}; name llama.cpp's folder or its {CONVERTER}.")
    return file.resolve()
