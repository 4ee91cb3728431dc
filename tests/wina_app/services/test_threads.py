"""Checks of files beside a busy database."""

import json
import shutil
import threading
from pathlib import Path

import pytest
from wina_app.services.store_thread import StoreThread
from wina_app.services.threads import Checks

from wina_core.model_info.cost.describe import check_source
from wina_core.model_info.resolve import demo_folder
from wina_core.specs import ModelSource


def _without_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def _of_another_architecture(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "gpt2", "architectures": ["GPT2LMHead"]}))


def _cut_off(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])


def _in_pickle_alone(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_without_config, "has no config.json"),
        (_of_another_architecture, "is not a supported architecture"),
        (_cut_off, "is damaged or was not copied to the end"),
        (_in_pickle_alone, "only as pickle"),
    ],
)
def test_a_bad_folder_is_refused_while_the_database_answers_nothing(qtbot, tmp_path, spoil, reason):
    folder = tmp_path / "model"
    shutil.copytree(demo_folder() / "model", folder)
    spoil(folder)
    store, checks, query_may_end, refused = StoreThread(), Checks(), threading.Event(), []
    store.start()
    store.ask(lambda _store: query_may_end.wait(60))
    checks.ask(lambda: check_source(ModelSource(location=str(folder))), refused.append, refused.append)
    qtbot.waitUntil(lambda: len(refused) == 1)
    query_may_end.set()
    store.finish()
    assert reason in refused[0]


def test_a_good_folder_is_described(qtbot):
    checks, found = Checks(), []
    checks.ask(lambda: check_source(ModelSource(location="demo")), found.append, found.append)
    qtbot.waitUntil(lambda: len(found) == 1)
    source, summary = found[0]
    assert source.fingerprint == summary.fingerprint
    assert summary.family == "llama"
