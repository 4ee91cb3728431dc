"""Fixtures of several of the core's test modules."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wina_core import cli
from wina_core.store import Store


@pytest.fixture(autouse=True)
def only_own_garbage() -> Iterator[None]:
    """Keep what was there before a test out of its garbage collections: jobs collect everything when they end."""
    gc.freeze()
    yield
    gc.collect()
    gc.unfreeze()


@pytest.fixture(scope="module")
def engine_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A WINA_HOME for the engines of one module."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("WINA_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A WINA_HOME for everything here, so that no test reads or fills the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("own-home")
        patch.setenv("WINA_HOME", str(folder))
        yield folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A WINA_HOME of this test's own."""
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty database in a file."""
    with Store(tmp_path / "results.sqlite") as opened:
        yield opened


class Wina:
    """A caller of the command line in the test's own process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: object) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr, which holds no traceback."""
        self._monkeypatch.setattr(sys, "argv", ["wina", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = self._capsys.readouterr()
        assert "Traceback" not in err
        return int(ended.value.code or 0), out, err

    def succeeds(self, *words: object) -> str:
        """Return stdout of a call that must succeed."""
        code, out, err = self(*words)
        assert code == 0, err
        return out

    def fails(self, code: int, *words: object) -> str:
        """Return the last line of stderr of a call that must fail with this exit code."""
        found, _, err = self(*words)
        assert found == code, err
        return err.strip().splitlines()[-1]


@pytest.fixture
def wina(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Wina:
    return Wina(monkeypatch, capsys)
