"""Several processes on one database, and processes that die."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wina_core.samples import run, study, unit
from wina_core.errors import WinaError
from wina_core.files.locks import FileLock
from wina_core.specs import FIDELITY
from wina_core.store import Store

HERE = Path(__file__).resolve().parents[3]
PRELUDE = """
import sys, time
from tests.wina_core.samples import *
from wina_core.store import Store
store = Store(sys.argv[1])
"""


def _start(code: str, address: str | Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python process with an open store and the given code to run."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, str(address), *arguments],
        cwd=HERE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == word, process.stderr and process.stderr.read()


WRITER = """
mine = [run(int(sys.argv[2]) * 0.4 + index / 100) for index in range(8)]
print("ready", flush=True)
sys.stdin.readline()
for index in range(len(mine)):
    store.save_study(study("writer " + sys.argv[2]), mine[: index + 1])
    store.begin_run(mine[index].content_hash(), ENVIRONMENT)
    for name in mine[index].evaluation.units:
        store.record_unit(unit(mine[index], name))
        store.metric_rows()
store.close()
"""


def test_two_processes_that_open_and_write_at_once_lose_nothing(address: str) -> None:
    writers = [_start(WRITER, address, str(index)) for index in range(2)]
    for writer in writers:
        _wait_for(writer, "ready")
    outputs = [writer.communicate("go\n", timeout=120) for writer in writers]
    assert [(writer.returncode, error) for writer, (_, error) in zip(writers, outputs, strict=True)] == [(0, "")] * 2
    with Store(address) as store:
        assert len(store.metric_rows()) == 2 * 8 * 2
        assert {row.status for row in store.runs()} == {"done"}
        assert [row.runs_done for row in store.studies()] == [8, 8]


HALF_WAY = """
import wina_core.store.writer as module
spec = run()
store.save_study(study(), (spec, run(0.25)))
store.begin_run(spec.content_hash(), ENVIRONMENT)
store.record_unit(unit(spec, "choice"))
def hang(*_, **__):
    print("half way", flush=True)
    time.sleep(600)
module._insert_layers = hang
store.record_unit(unit(spec, "fidelity"))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kill -9 as POSIX has it")
def test_a_writer_killed_half_way_through_a_unit_loses_that_unit_only(address: str) -> None:
    writer = _start(HALF_WAY, address)
    _wait_for(writer, "half way")
    with Store(address) as store:
        assert store.run_status(run().content_hash()) == "running"
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    with Store(address) as store:
        assert [row.unit for row in store.metric_rows()] == ["choice"]
        assert [run.units for run in store.pending([run()])] == [(FIDELITY,)]
        assert [row.status for row in store.runs()] == ["interrupted", "interrupted"]
        assert "run it again to compute what is missing" in store.runs()[0].error
        store.save_study(study(), (run(),))
        store.record_unit(unit(run(), FIDELITY))
        assert store.run_status(run().content_hash()) == "done"
    assert [path.name for path in Path(f"{address}.sessions").glob("*")] in ([], ["starting"])


WAITING = """
store.save_study(study(), (run(),))
store.begin_run(run().content_hash(), ENVIRONMENT)
print("waiting", flush=True)
sys.stdin.readline()
store.finish_run(run().content_hash(), "cancelled")
store.close()
"""


def test_runs_of_a_living_process_are_left_alone(address: str) -> None:
    other = _start(WAITING, address)
    _wait_for(other, "waiting")
    for _ in range(2):
        with Store(address) as store:
            assert store.run_status(run().content_hash()) == "running"
            store.save_study(study("the same run"), (run(),))
            assert store.run_status(run().content_hash()) == "running"
    _, error = other.communicate("go\n", timeout=120)
    assert (other.returncode, error) == (0, "")
    with Store(address) as store:
        assert store.run_status(run().content_hash()) == "cancelled"


def test_a_lock_is_held_once_and_let_go(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.acquire()
    assert not second.acquire()
    with pytest.raises(WinaError, match=r"Another program has held .*lock for 0 s; close it and try again"):
        second.wait(0.05)
    first.release()
    with second:
        assert not first.acquire()
    assert first.acquire()
    first.release()
