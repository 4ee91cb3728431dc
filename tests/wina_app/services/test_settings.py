"""What the window remembers survives crashes, nonsense and read-only folders."""

import json

import pytest
from PySide6.QtCore import QByteArray
from wina_app.services.settings import RECENT_LIMIT, VERSION, Settings

from wina_core.results.measured import COUNTS


def test_entries_come_back(tmp_path):
    settings = Settings(tmp_path / "window.json")
    settings.prefer(theme="dark")
    settings.prefer(engines=2)
    settings.add_recent("/models/a")
    settings.save_window(QByteArray(b"geometry"), QByteArray(b"layout"), "results")
    again = Settings(tmp_path / "window.json")
    assert (again.preferences.theme, again.recent, again.page, again.preferences.engines) == (
        "dark",
        ["/models/a"],
        "results",
        2,
    )
    assert (again.geometry, again.layout) == (QByteArray(b"geometry"), QByteArray(b"layout"))


def test_the_sparsity_of_comparisons_is_a_setting(tmp_path):
    settings = Settings(tmp_path / "window.json")
    assert settings.preferences.sparsity_count == "counted"
    settings.prefer(sparsity_count="full")
    assert Settings(tmp_path / "window.json").preferences.sparsity_count == "full"
    field = type(settings.preferences).model_fields["sparsity_count"]
    assert field.title == "Sparsity in comparisons"
    assert list(field.json_schema_extra["names"]) == list(COUNTS)


def test_recent_models_are_the_last_ones_each_once(tmp_path):
    settings = Settings(tmp_path / "window.json")
    for number in range(RECENT_LIMIT + 3):
        settings.add_recent(f"/models/{number}")
    settings.add_recent("/models/8")
    assert settings.recent[:2] == ["/models/8", f"/models/{RECENT_LIMIT + 2}"]
    assert len(settings.recent) == RECENT_LIMIT
    settings.forget_recent("/models/8")
    assert "/models/8" not in Settings(tmp_path / "window.json").recent


def test_one_bad_entry_costs_only_itself(tmp_path):
    file = tmp_path / "window.json"
    file.write_text(json.dumps({"version": 1, "theme": 7, "recent": ["/models/a"], "geometry": [1], "engines": -3}))
    settings = Settings(file)
    assert (settings.preferences.theme, settings.recent, settings.geometry.size()) == ("system", ["/models/a"], 0)
    assert settings.preferences.engines == 0


def test_one_bad_item_costs_only_itself(tmp_path):
    file = tmp_path / "window.json"
    lists = ("recent", "studies", "recent_databases", "results_columns", "prompts")
    stored = {name: ["first", 7, None, "second"] for name in lists} | {"study_data": {"a.toml": "/data", "b.toml": 3}}
    file.write_text(json.dumps({"version": 1, **stored}))
    settings = Settings(file)
    assert [getattr(settings, name) for name in lists] == [["first", "second"]] * len(lists)
    assert settings.study_data == {"a.toml": "/data"}


def test_a_newer_versions_file_is_left_as_it_is_and_this_is_said_once(tmp_path, caplog):
    file = tmp_path / "window.json"
    newer = json.dumps({"version": VERSION + 1, "theme": "sepia", "recent": {"models": []}})
    file.write_text(newer)
    settings = Settings(file)
    settings.prefer(theme="dark")
    settings.add_recent("/models/a")
    assert (settings.preferences.theme, settings.recent) == ("dark", ["/models/a"]), "until the window is closed"
    assert file.read_text() == newer
    assert caplog.text.count("newer version") == 1
    assert str(file) in settings.trouble


def test_a_newer_window_that_is_opened_later_keeps_its_file_too(tmp_path):
    file = tmp_path / "window.json"
    settings = Settings(file)
    settings.prefer(theme="dark")
    assert settings.trouble == ""
    newer = json.dumps({"version": VERSION + 1})
    file.write_text(newer)
    settings.prefer(theme="light")
    assert file.read_text() == newer
    assert "newer version" in settings.trouble


@pytest.mark.parametrize("content", ['{"version": 1, "recent": [', "[" * 100_000], ids=["cut off", "nested"])
def test_a_damaged_file_is_said_and_replaced(content, tmp_path, caplog):
    file = tmp_path / "window.json"
    file.write_text(content)
    settings = Settings(file)
    assert settings.recent == []
    assert "cannot be read" in caplog.text
    settings.prefer(theme="light")
    assert Settings(file).preferences.theme == "light"


def test_a_file_that_cannot_be_written_stops_nobody_and_is_told_until_it_can(tmp_path, caplog):
    settings, told = Settings(tmp_path / "missing" / "window.json"), []
    settings.tell = told.append
    settings.prefer(theme="dark")
    settings.prefer(engines=2)
    assert (settings.preferences.theme, settings.preferences.engines) == ("dark", 2)
    assert "cannot be written" in caplog.text
    assert len(told) == 1
    assert "until the window is closed" in told[0]
    assert settings.trouble == told[0]
    (tmp_path / "missing").mkdir()
    settings.prefer(engines=3)
    assert settings.trouble == ""


def test_a_home_where_no_folder_can_be_made_stops_nobody(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "file"))
    settings = Settings()
    settings.prefer(theme="dark")
    assert settings.preferences.theme == "dark"
    assert "cannot be created" in caplog.text
    assert "WINA_HOME" in caplog.text


def test_half_a_character_in_the_layout_costs_only_the_layout(tmp_path):
    file = tmp_path / "window.json"
    file.write_text(r'{"version": 1, "theme": "dark", "geometry": "\ud800", "layout": "\ud800"}')
    settings = Settings(file)
    assert (settings.geometry.size(), settings.layout.size(), settings.preferences.theme) == (0, 0, "dark")
