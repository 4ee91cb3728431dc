"""The limit of memory that the window passes on to its engines."""

import os

import pytest
from wina_app.services.memory import limit_memory
from wina_app.services.settings import Settings

from wina_core.files.hardware import MEMORY_VARIABLE, memory_limit


@pytest.mark.parametrize(
    ("given", "chosen", "limit"),
    [("", "", None), ("", "8GB", 8e9), ("4GB", "8GB", 4e9), ("4GB", "", 4e9)],
    ids=["none", "the settings'", "from outside", "from outside alone"],
)
def test_a_limit_from_outside_counts_before_that_of_the_settings(monkeypatch, given, chosen, limit):
    monkeypatch.setenv(MEMORY_VARIABLE, given)
    assert limit_memory(chosen) == given
    assert memory_limit() == limit
    assert os.environ[MEMORY_VARIABLE] == (given or chosen), "engines inherit it"


def test_a_stored_limit_that_is_no_size_is_replaced_and_reported(tmp_path):
    file = tmp_path / "window.json"
    file.write_text('{"version": 1, "memory": "a lot"}')
    said = []
    settings = Settings(file)
    settings.report_to(said.append)
    assert settings.preferences.memory == ""
    assert said == ["Damaged settings were replaced by their defaults: memory."]
