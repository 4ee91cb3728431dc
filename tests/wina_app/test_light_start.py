"""The window opens without any of the heavy libraries; those belong to the engine's process."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "transformers", "lm_eval", "triton", "datasets", "accelerate")
PROGRAM = """
import json, sys
from PySide6.QtWidgets import QApplication
from wina_app.application import Application
from wina_app.services.threads import EngineThread
from tests.wina_app.fakes import FakeClient

app = QApplication([])
application = Application(app, engine=EngineThread(FakeClient))
application.workbench.store.opened.connect(lambda _: application.window.close())
start, painted = application.workbench.start, []
application.workbench.start = lambda: (painted.extend(sys.modules), start())  # comes right after the first paint
application.start()
app.exec()
print(json.dumps([painted, sorted(sys.modules)]))
"""


def test_the_window_opens_its_store_and_closes_without_importing_anything_heavy(home):
    environment = {"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}", "QT_QPA_PLATFORM": "offscreen", "WINA_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    painted, modules = map(set, json.loads(done.stdout.splitlines()[-1]))
    assert "pandas" not in painted
    assert "sqlalchemy" in modules
    assert not modules & set(HEAVY)


def test_the_first_page_needs_no_library_of_tables_or_databases():
    """Each takes 0.1 s or more to import, before the first paint."""
    program = """
import json, sys
from wina_app.services.settings import Settings  # before Qt, whose hook does not bear pydantic's own late imports
import wina_app.application, wina_app.pages.model
print(json.dumps(sorted(sys.modules)))
"""
    environment = {"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert not set(json.loads(done.stdout)) & {"sqlalchemy", "numpy", "pandas", "pyqtgraph"}
