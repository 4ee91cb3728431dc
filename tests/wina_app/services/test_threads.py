"""Checks of files beside a busy database."""

import shutil
import threading

from wina_app.services.store_thread import StoreThread
from wina_app.services.threads import Checks

from wina_core.model_info.cost.describe import check_source
from wina_core.model_info.resolve import demo_folder
from wina_core.specs import ModelSource


def test_a_bad_folder_is_refused_while_the_database_answers_nothing(qtbot, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(demo_folder() / "model", folder)
    (folder / "config.json").unlink()
    store, checks, query_may_end, refused = StoreThread(), Checks(), threading.Event(), []
    store.start()
    store.ask(lambda _store: query_may_end.wait(60))
    checks.ask(lambda: check_source(ModelSource(location=str(folder))), refused.append, refused.append)
    qtbot.waitUntil(lambda: len(refused) == 1)
    query_may_end.set()
    store.finish()
    assert "has no config.json" in refused[0]
