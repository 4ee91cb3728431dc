"""Results files: on the disk line by line, repaired after a kill, read in whole lines."""

import os
from pathlib import Path

import pytest

from wina_core.errors import WinaError
from wina_core.jobs import Done, RunStarted
from wina_core.remote.cluster.lines import read_lines
from wina_core.remote.cluster.results_file import ResultsFile, parse_lines


def test_a_torn_last_line_is_cut_off_before_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "0.jsonl"
    first = ResultsFile(path)
    first.write(RunStarted(job_id="a", run="1"))
    first.close()
    with path.open("ab") as file:
        file.write(b'{"at": 1, "message": {"type": "part')
    second = ResultsFile(path)
    second.write(Done(job_id="a"))
    assert list(second.messages()) == [RunStarted(job_id="a", run="1"), Done(job_id="a")]


def test_whole_lines_are_read_from_an_offset_on(tmp_path: Path) -> None:
    path = tmp_path / "0.jsonl"
    path.write_bytes(b"first\nsecond\nthi")
    assert read_lines(path, 0, 8) == b"first\n"
    assert read_lines(path, 6, 2) == b"second\n"
    assert read_lines(path, 13, 100) == b""
    assert read_lines(tmp_path / "missing", 0, 100) == b""


def test_a_line_that_is_no_result_is_refused() -> None:
    with pytest.raises(WinaError, match="malformed"):
        list(parse_lines("{}\n"))


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")
def test_a_link_or_a_pipe_in_place_of_the_file_is_neither_read_nor_written(tmp_path: Path) -> None:
    secret, link, pipe = (tmp_path / name for name in ("secret", "link", "pipe"))
    secret.write_text("no line end")
    link.symlink_to(secret)
    os.mkfifo(pipe)
    for path, reason in ((link, "is a link"), (pipe, "is no ordinary file")):
        with pytest.raises(WinaError, match=reason):
            read_lines(path, 0, 100)
    with pytest.raises(OSError, match="symbolic links"):
        ResultsFile(link)
    assert secret.read_text() == "no line end"
