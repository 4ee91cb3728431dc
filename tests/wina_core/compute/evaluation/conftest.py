"""Fixtures of the tests of evaluations."""

from pathlib import Path

import pytest

from tests.wina_core.compute.evaluation.task_files import write_tasks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of `write_tasks`."""
    return write_tasks(tmp_path_factory.mktemp("tasks with spaces"))
