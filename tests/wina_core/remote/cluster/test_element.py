"""An element of an array: what it computes, and what it leaves to its next process."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wina_core.remote.cluster.array import ELEMENTS, SPECS, result
from wina_core.jobs import Done, Partial, RunFailed, RunStarted
from wina_core.remote.cluster.element import MOST_BEGINNINGS, Stop, compute_element, rest_of
from wina_core.remote.cluster.results_file import ResultsFile
from wina_core.store.spill import Recorded

FIRST, SECOND = (spec.content_hash() for spec in SPECS[:2])
JOB = ELEMENTS[0]


@pytest.fixture
def stop() -> Iterator[Stop]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
    before = {number: signal.getsignal(number) for number in numbers}
    yield Stop()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("elements", "results"):
        (tmp_path / name).mkdir()
    (tmp_path / "elements" / "0.json").write_text(JOB.model_dump_json())
    return tmp_path


def written(folder: Path) -> list[Recorded]:
    return list(ResultsFile(folder / "results" / "0.jsonl").messages())


def test_an_element_computes_its_runs_and_later_only_what_is_missing(folder: Path, stop: Stop) -> None:
    ResultsFile(folder / "results" / "0.jsonl").write(result(SPECS[0]))
    assert compute_element(folder, 0, stop) == 0
    assert [message.unit.run for message in written(folder) if isinstance(message, Partial)] == [FIRST, SECOND]
    assert compute_element(folder, 0, stop) == 0
    assert isinstance(written(folder)[-1], Done)
    assert sum(isinstance(message, Partial) for message in written(folder)) == 2


def test_a_signal_stops_an_element_and_the_next_process_completes_it(folder: Path, stop: Stop) -> None:
    signal.raise_signal(signal.SIGTERM)
    assert compute_element(folder, 0, stop) == 128 + signal.SIGTERM
    assert not any(isinstance(message, Partial) for message in written(folder))
    stop.signal = 0
    assert compute_element(folder, 0, stop) == 0


def test_the_signal_before_a_time_limit_asks_for_another_process(
    folder: Path, stop: Stop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    program = tmp_path / "scontrol"
    program.write_text(f'#!/bin/sh\necho "$@" > {asked}\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    signal.raise_signal(signal.SIGUSR2)
    signal.raise_signal(signal.SIGTERM)  # which follows it
    compute_element(folder, 0, stop)
    assert asked.read_text() == "requeue 7_0\n"


def test_a_run_that_failed_or_ended_too_many_processes_is_not_begun_again() -> None:
    begun: list[Recorded] = [RunStarted(job_id="x", run=FIRST)] * MOST_BEGINNINGS
    assert rest_of(JOB, begun) == ((JOB.runs[1],), [FIRST])
    assert rest_of(JOB, [RunFailed(job_id="x", run=FIRST, error="bad")]) == ((JOB.runs[1],), [])
    preempted = [*begun, Done(job_id="x", cancelled=True)]
    assert rest_of(JOB, preempted) == (JOB.runs, [])
