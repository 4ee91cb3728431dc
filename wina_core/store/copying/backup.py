"""Backups: one file that opens as a results database."""

import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.store.connection import explained, parse_url, place_of
from wina_core.store.copying.merge import OnProgress, copy_database
from wina_core.store.copying.source import copy_file, existing_file
from wina_core.store.refusals import unwritable


def back_up_database(place: str | Path, target: Path | None = None, on_progress: OnProgress = lambda *_: None) -> Path:
    """Copy a database to a new file, and return the file.

    Others may write to the database meanwhile. An SQLite database is copied as it is, in its version; any other one is
    merged into an SQLite file and verified. By default the file is named after the database and the time, beside an
    SQLite database or in the current folder. Raises WinaError for a target that exists; what failed leaves none.
    """
    url = parse_url(place)
    file = existing_file(url)
    target = (target or _usual_target(file, url.database or "")).expanduser().absolute()
    if target.exists():
        raise WinaError(f"{target} already exists; name another file for the backup.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".wina-backup-") as folder:
            copy = Path(folder) / target.name
            if file is None:
                copy_database(place, copy, on_progress)
            else:
                with explained(url):
                    copy_file(file, copy)
                _check(copy, place_of(url))
                on_progress(1, 1)
            copy.rename(target)
    except OSError as error:
        raise unwritable(target, error) from error
    return target


def _usual_target(file: Path | None, name: str) -> Path:
    when = time.strftime("%Y%m%d-%H%M%S")
    return Path(f"{name}-{when}.sqlite") if file is None else file.with_name(f"{file.stem}-{when}{file.suffix}")


def _check(copy: Path, place: str) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise WinaError(f"The results database {place} is damaged ({found}); no backup was made of it.")
