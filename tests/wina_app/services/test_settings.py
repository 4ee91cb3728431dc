"""Settings survive crashes, damaged entries, newer versions and read-only folders."""

import json
import os
from pathlib import Path

import pytest
from pydantic import ValidationError
from wina_app.services.settings import Preferences, Settings

LISTS = ("recent", "studies", "recent_databases", "results_columns", "prompts")
LAST_VERSION = {
    "version": 1,
    "theme": "dark",
    "text_size": 120,
    "colour_map": "cividis",
    "sparsity_count": "net",
    "notify": False,
    "reopen": False,
    "confirm_quit": False,
    "engines": 2,
    "database": "results.sqlite",
    "recent": ["/models/a", "demo"],
    "study_data": {"a.toml": "/data"},
    "session": {"model": {"location": "demo"}, "plan": None},
    "plot_file": {"format": "png"},
    "results_columns": ["task", "-model"],
    "page": "results",
    "geometry": "Z2VvbWV0cnk+Pz8=",
    "layout": "bGF5b3V0",
}
"""A file as the last version wrote it."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "window.json"


def reported(settings: Settings) -> list[str]:
    """Return a list that the problems with the file are added to."""
    problems: list[str] = []
    settings.report_to(problems.append)
    return problems


def test_every_change_is_in_the_file(file):
    settings = Settings(file)
    settings.update(theme="dark", geometry=b"geometry")
    settings.engines = 2
    settings.add_recent("/models/a")
    again = Settings(file)
    assert (again.theme, again.engines, again.recent, again.geometry) == ("dark", 2, ["/models/a"], b"geometry")
    assert json.loads(file.read_text()).keys() == {"version", "theme", "geometry", "engines", "recent"}
    with pytest.raises(ValueError, match="engines"):
        settings.engines = -3


def test_the_file_of_the_last_version_is_read_and_written_alike(file):
    file.write_text(json.dumps(LAST_VERSION))
    settings = Settings(file)
    assert reported(settings) == []
    assert (settings.geometry, settings.layout) == (b"geometry>??", b"layout")
    known = {name: value for name, value in LAST_VERSION.items() if name in Preferences.model_fields}
    assert settings.preferences == Preferences(**known)
    settings.theme = "dark"
    assert json.loads(file.read_text()) == LAST_VERSION


@pytest.mark.parametrize(
    ("damaged", "value"),
    [
        ("theme", 7),
        ("engines", -3),
        ("memory", "a lot"),
        ("recent", {}),
        ("geometry", [1]),
        ("layout", "\ud800"),
        ("geometry", "*"),
        ("session", "x"),
    ],
)
def test_one_damaged_entry_is_reported_and_only_itself_lost(file, damaged, value):
    file.write_text(json.dumps(LAST_VERSION | {"later": 1, damaged: value}))
    settings = Settings(file)
    (problem,) = reported(settings)
    assert damaged in problem
    settings.page = "results"
    kept = json.loads(file.read_text())
    assert kept == {name: value for name, value in (LAST_VERSION | {"later": 1}).items() if name != damaged}


def test_one_damaged_item_is_reported_and_only_itself_lost(file):
    stored = {name: ["first", 7, None, "second"] for name in LISTS} | {"study_data": {"a.toml": "/data", "b.toml": 3}}
    file.write_text(json.dumps({"version": 1, **stored}))
    settings = Settings(file)
    assert [getattr(settings, name) for name in LISTS] == [["first", "second"]] * len(LISTS)
    assert settings.study_data == {"a.toml": "/data"}
    assert all(name in reported(settings)[0] for name in stored)


@pytest.mark.parametrize(
    "content",
    ['{"version": 1, "recent": [', "[" * 100_000, "[]", '{"version": 1, "\\ud800": 1}'],
    ids=["cut off", "nested", "other", "surrogate"],
)
def test_a_damaged_file_is_reported_and_replaced(file, content):
    file.write_text(content)
    settings = Settings(file)
    assert settings.recent == []
    assert str(file) in reported(settings)[0]
    settings.theme = "light"
    assert Settings(file).theme == "light"


def test_a_file_of_a_newer_version_stays_as_it_is(file):
    file.write_text('{"version": 2, "views": {}}')
    settings = Settings(file)
    assert "newer version" in reported(settings)[0]
    settings.theme = "light"
    assert json.loads(file.read_text()) == {"version": 2, "views": {}}


def test_a_file_that_cannot_be_written_is_reported_until_it_can(tmp_path):
    settings = Settings(tmp_path / "missing" / "window.json")
    problems = reported(settings)
    settings.theme = "dark"
    settings.engines = 2
    assert (settings.theme, settings.engines) == ("dark", 2)
    (problem,) = problems
    assert "until the window is closed" in problem
    (tmp_path / "missing").mkdir()
    settings.engines = 3
    assert reported(settings) == []


def test_a_pipe_is_not_waited_for(file):
    os.mkfifo(file)
    assert "is a pipe, a device or the like" in reported(Settings(file))[0]


def test_a_password_of_a_database_is_never_stored(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "window.json")
    for address in ("postgresql://me:secret@host/results", "postgresql://me@host/results?password=secret"):
        with pytest.raises(ValidationError, match="An address with a password is not stored"):
            settings.database = address
    settings.database = "postgresql://me@host/results"
    assert "secret" not in (tmp_path / "window.json").read_text()
