"""Imports after Qt's do not wait for PySide."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import inspect
from PySide6.QtCore import QObject
from wina_app.services.feature_scan import skip_feature_scan
skip_feature_scan()
read = []
inspect.getsource = lambda module: read.append(module.__name__) or ""
import colorsys, wina_app.style.palette
print(read, QObject().objectName() == "", hasattr(QObject, "object_name"))
"""


def test_no_source_is_read_for_the_features_of_pyside():
    environment = {"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("[] True False", 0), done.stderr
