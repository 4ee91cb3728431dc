"""`wina serve` finds bad input before it loads a model."""

import re
import socket
from pathlib import Path

import pytest

from tests.wina_core.tiny import tiny_folder
from wina_core.cli import serve
from wina_core.files.user_file import KEY_VARIABLE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def no_packages_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_NEEDED", ())
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


def test_a_port_in_use_is_named(folder, wina):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert re.search(
            f"port {port}, cannot be listened on .*in use.*choose another",
            wina.fails(1, "serve", folder, "--port", port),
        )


@pytest.mark.parametrize(
    ("host", "sentence"),
    [("0.0.0.0", "needs an API key"), ("::", "needs an API key"), ("no such host", "cannot be listened on")],
)
def test_other_machines_need_a_key(host, sentence, folder, wina):
    assert sentence in wina.fails(1, "serve", folder, "--host", host)


@pytest.mark.parametrize("key", ["short", "two words of a long key"])
def test_a_key_that_is_easy_to_guess_is_refused(key, folder, tmp_path, monkeypatch, wina):
    (tmp_path / "key").write_text(f"{key}\n", encoding="utf-8")
    assert re.search("at least 16 ASCII characters", wina.fails(1, "serve", folder, "--api-key-file", tmp_path / "key"))
    monkeypatch.setenv(KEY_VARIABLE, key)
    assert re.search("key in WINA_API_KEY", wina.fails(1, "serve", folder))


def test_only_a_model_is_served(tmp_path, wina):
    assert re.search(r"has no config\.json", wina.fails(1, "serve", tmp_path))
    assert re.search("is not downloaded", wina.fails(1, "serve", "nobody/nothing"))
