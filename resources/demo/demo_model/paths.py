"""Paths of the shipped demo files."""

from wina_core.files.paths import resources_folder

DEMO = resources_folder() / "demo"
MODEL = DEMO / "model"
TASKS = DEMO / "tasks"
TEXT = DEMO / "text"
DATA = DEMO / "data"
