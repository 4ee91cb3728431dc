"""The window's log on a disk that is full."""

import logging
import os

import pytest
from wina_app.services.log_file import LogFile


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full here")
def test_a_full_disk_costs_the_lines_alone(tmp_path, capsys):
    (tmp_path / "window.log").symlink_to("/dev/full")
    handler, log = LogFile(tmp_path / "window.log"), logging.Logger("of this test")
    log.addHandler(handler)
    for number in range(3):
        log.warning("line %d", number)
    handler.close()
    assert capsys.readouterr().err == ""


def test_lines_are_kept(tmp_path):
    handler, log = LogFile(tmp_path / "window.log"), logging.Logger("of this test")
    log.addHandler(handler)
    log.warning("the engine was killed")
    handler.close()
    assert (tmp_path / "window.log").read_text() == "the engine was killed\n"
