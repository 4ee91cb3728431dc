"""A real PostgreSQL server for the tests: in a temporary folder, on a Unix socket only, without fsync."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from wina_core.store.tables import StoreTable

USER = "wina"
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "80",
    "shared_buffers": "32MB",
}


def programs() -> Path | None:
    """Return the folder of PostgreSQL's server programs; None where they are not installed."""
    on_path = [Path(program).resolve().parent for program in [shutil.which("initdb")] if program]
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    return next((path for path in (*on_path, *debian) if (path / "postgres").exists()), None)


class Server:
    """A running server."""

    def __init__(self, folder: Path) -> None:
        """`folder` has the programs."""
        self._programs = folder
        self.folder = Path(tempfile.mkdtemp(prefix="wina-postgres-"))
        self._user: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        if self._user:
            shutil.chown(self.folder, "postgres", "postgres")
        self.folder.chmod(0o755)
        self._names = count()
        self._process: subprocess.Popen[bytes] | None = None
        words = ["-D", self._data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
        subprocess.run([self._programs / "initdb", *words], cwd=self.folder, check=True, **self._user)
        hba = (self._data / "pg_hba.conf").read_text()
        (self._data / "pg_hba.conf").write_text(f"local with_password all scram-sha-256\n{hba}")
        self.start()
        self.execute("CREATE DATABASE results")

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        """Start the server and wait until it answers; the rest of a killed one ends within seconds."""
        options = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [self._programs / "postgres", "-D", self._data, "-k", self.folder, *options]
        until = time.monotonic() + 120
        while time.monotonic() < until:
            if self._process is None or self._process.poll() is not None:
                with (self.folder / "log").open("ab") as log:
                    self._process = subprocess.Popen(
                        [str(word) for word in command], cwd=self.folder, stdout=log, stderr=log, **self._user
                    )
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError((self.folder / "log").read_text())

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Kill the server as a crash does, and start it again afterwards."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        try:
            yield
        finally:
            self.start()

    def stop(self) -> None:
        """Stop the server and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(120)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str, user: str = USER) -> str:
        """Return the URL of a database."""
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def execute(self, statement: str, url: str = "") -> list[Any]:
        """Execute a statement and return its rows."""
        with psycopg.connect(url or self.url("postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def create(self) -> str:
        """Make a schema, which is an empty database for those who know no other, and return its URL."""
        name = f"schema_{next(self._names)}"
        self.execute(f"CREATE SCHEMA {name}", self.url("results"))
        return f"{self.url('results')}&options=-csearch_path%3D{name}"

    def empty(self, url: str) -> None:
        """Remove all rows of a results database."""
        self.execute(f"TRUNCATE {', '.join(StoreTable.metadata.tables)} RESTART IDENTITY", url)
