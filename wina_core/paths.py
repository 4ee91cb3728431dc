"""The folders the workbench reads and writes, after the platform's conventions.

Setting WINA_HOME puts data, cache, config and log under that one folder instead, as tests and portable installs do.
"""

import os
from pathlib import Path

import platformdirs

_NAME = "wina-workbench"


def _folder(kind: str, platform_default: str) -> Path:
    home = os.environ.get("WINA_HOME")
    folder = Path(home) / kind if home else Path(platform_default)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def data_folder() -> Path:
    """Where the results database lives."""
    return _folder("data", platformdirs.user_data_dir(_NAME, appauthor=False))


def cache_folder() -> Path:
    """Calibrations and rotation matrices, keyed by their specs' hashes; safe to delete."""
    return _folder("cache", platformdirs.user_cache_dir(_NAME, appauthor=False))


def config_folder() -> Path:
    """Settings and window layout."""
    return _folder("config", platformdirs.user_config_dir(_NAME, appauthor=False))


def log_folder() -> Path:
    """Log files of the window and its engines."""
    return _folder("log", platformdirs.user_log_dir(_NAME, appauthor=False))


def database_url() -> str:
    """SQLAlchemy URL of the results store: WINA_DATABASE if set, else an SQLite file in the data folder."""
    return os.environ.get("WINA_DATABASE") or f"sqlite:///{data_folder() / 'results.sqlite'}"


def resources_folder() -> Path:
    """The shipped resources: beside the packages in a checkout, inside wina_core in an installed wheel."""
    package = Path(__file__).resolve().parent
    checkout = package.parent / "resources"
    return checkout if checkout.is_dir() else package / "_resources"
