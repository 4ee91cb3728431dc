"""Claims: two programs that launch the same runs compute each once."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.wina_core.samples import ENVIRONMENT, run, study, unit
from tests.wina_core.store.test_processes import _start, _wait_for
from wina_core.errors import WinaError
from wina_core.jobs import PendingRun
from wina_core.records.claims import TakenRun, left_out
from wina_core.specs import FIDELITY
from wina_core.store import Store
from wina_core.store.claims import whoami

RUNS = tuple(run(sparsity / 10) for sparsity in range(1, 6))
NAMES = [spec.content_hash() for spec in RUNS]


@pytest.fixture
def other(address: str) -> Iterator[Store]:
    """The store of another program on the same database."""
    with Store(address) as opened:
        yield opened


def launched(store: Store, *, recompute: bool = False) -> list[str]:
    """Launch all runs and return the hashes of those that are this program's."""
    pending = [PendingRun(spec=spec, units=spec.evaluation.units) for spec in RUNS]
    found = store.launch(study(), RUNS, pending, recompute=recompute)
    return [each.spec.content_hash() for each in found.pending]


def test_runs_that_another_program_has_queued_are_left_out_and_named(store: Store, other: Store) -> None:
    here = store.launch(study(), RUNS[:3], store.pending(RUNS[:3]))
    there = other.launch(study(), RUNS, other.pending(RUNS))
    assert [each.spec for each in here.pending] == list(RUNS[:3])
    assert [each.spec for each in there.pending] == list(RUNS[3:])
    place = whoami()
    assert there.taken == tuple(TakenRun(name, place["user"], place["host"]) for name in NAMES[:3])
    assert left_out(there.taken) == (
        f"3 runs are being computed by {place['user']} on {place['host']}; they are left out."
    )
    details = other.run_details()[NAMES[0]]
    assert (details.user, details.host) == (place["user"], place["host"])


def test_what_was_finished_meanwhile_is_not_computed_again(store: Store, other: Store) -> None:
    stale = other.pending(RUNS)
    store.launch(study(), RUNS, store.pending(RUNS))
    for name in RUNS[0].evaluation.units:
        store.record_unit(unit(RUNS[0], name))
    store.record_unit(unit(RUNS[1], FIDELITY))
    store.end_runs(NAMES, "cancelled")
    found = other.launch(study(), RUNS, stale)
    assert [each.spec for each in found.pending] == list(RUNS[1:])
    assert found.pending[0].units == ("choice",)
    assert found.taken == ()


def test_runs_in_progress_elsewhere_are_not_recomputed(store: Store, other: Store) -> None:
    launched(store)
    store.begin_run(NAMES[0], ENVIRONMENT)
    with pytest.raises(WinaError, match=r"5 runs are being computed by .*; recompute them when that has ended"):
        launched(other, recompute=True)
    for spec in RUNS:
        for name in spec.evaluation.units:
            store.record_unit(unit(spec, name))
    assert launched(other) == []
    assert launched(other, recompute=True) == NAMES


def test_of_two_launches_at_once_each_run_has_one_owner(store: Store, other: Store) -> None:
    with ThreadPoolExecutor(2) as threads:
        for _ in range(5):
            found = list(threads.map(launched, (store, other)))
            assert sorted(found[0] + found[1]) == sorted(NAMES)
            store.end_runs(NAMES, "cancelled")


LAUNCHED = """
store.save_study(study(), [run(sparsity / 10) for sparsity in range(1, 6)])
print("launched", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kill -9 as POSIX has it")
def test_runs_of_a_program_that_died_can_be_launched(store: Store, address: str) -> None:
    process = _start(LAUNCHED, address)
    _wait_for(process, "launched")
    assert launched(store) == []
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert launched(store) == NAMES
