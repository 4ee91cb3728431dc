"""The window with a machine over a real ssh: a model is found, opened and rotated there, and the result is fetched."""

import shutil

import pytest
from PySide6.QtCore import Qt
from wina_app.application import Application
from wina_app.services.engine_thread import EngineThread
from wina_app.shared.browse.dialog import BrowseDialog

from tests.wina_app.conftest import shown
from tests.wina_app.fakes import FakeClient
from tests.wina_core.remote.machines.sshd import sshd
from wina_core.engine.client.pool import EnginePool
from wina_core.model_info.resolve import demo_folder
from wina_core.remote.cluster.places import open_place

__all__ = ["sshd"]

EXACTLY = Qt.MatchFlag.MatchExactly


@pytest.fixture
def application(qtbot, qapp, monkeypatch):
    """The whole window; this computer's engine is none, the machines' are real."""
    engine = EngineThread(
        lambda on_event: EnginePool(on_event, client=lambda to, _: FakeClient(to), machines=open_place)
    )
    yield from shown(qtbot, Application(qapp, engine=engine), monkeypatch)


@pytest.mark.all_pages
def test_a_model_of_a_machine_is_opened_and_rotated_there_and_the_result_fetched(application, qtbot, sshd, tmp_path):
    workbench, window = application.workbench, application.window
    shutil.copytree(demo_folder() / "model", sshd.home / "models" / "tiny")
    sshd.give(sshd.home / "models")
    workbench.machines.save(sshd.machine())
    qtbot.waitUntil(window.status.run_on.isVisible)

    application.open_on_machine()
    (dialog,) = window.findChildren(BrowseDialog)
    folders = dialog.folders
    for name in ("models", "tiny"):
        qtbot.waitUntil(lambda name=name: bool(folders.findItems(name, EXACTLY)))
        item = folders.findItems(name, EXACTLY)[0]
        folders.setCurrentItem(item)
        folders.itemActivated.emit(item, 0)
    workspace = workbench.workspace
    qtbot.waitUntil(lambda: workspace.summary is not None)
    location = f"away:{sshd.home}/models/tiny"
    assert (workspace.source.location, workspace.summary.location) == (location, location)
    (entry,) = workbench.jobs
    assert (entry.machines, entry.state) == (("away",), "done")
    assert workspace.plan is not None
    for key in window.pages:
        window.show_page(key)

    application.rotation.rotate(f"away:{sshd.home}/models/rotated")
    rotate = next(entry for entry in workbench.jobs if entry.job.kind == "rotate")
    qtbot.waitUntil(lambda: not rotate.active)
    assert (rotate.error, rotate.made_there) == ("", f"away:{sshd.home}/models/rotated")
    assert workspace.rotation_report is not None

    job_id = workbench.fetch(rotate.made_there, tmp_path)
    qtbot.waitUntil(lambda: not workbench.jobs[job_id].active)
    assert workbench.jobs[job_id].error == ""
    assert (tmp_path / "rotated" / "config.json").is_file()
