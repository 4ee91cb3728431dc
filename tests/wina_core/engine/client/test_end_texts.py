"""The cause of an engine's end in words."""

import signal

import pytest

from wina_core.engine.client import end_texts
from wina_core.engine.client.end_texts import describe_end, describe_failure, describe_start
from wina_core.jobs import Failed

SIGBUS = getattr(signal, "SIGBUS", 7)


@pytest.mark.parametrize(
    ("code", "log", "kills", "words"),
    [
        (-9, "", (4, 5), "was killed because memory ran out"),
        (-9, "", (4, 4), "was killed from outside, perhaps because memory ran out"),
        (-9, "", (None, None), "was killed from outside, perhaps because memory ran out"),
        (-signal.SIGTERM, "", (4, 5), "was killed from outside, perhaps because memory ran out"),
        (-signal.SIGABRT, "terminate called: std::bad_alloc", (4, 4), "stopped because memory ran out"),
        (-signal.SIGABRT, "assertion failed", (4, 4), "crashed with signal 6"),
        (-11, "", (4, 5), "crashed with signal 11"),
        (-SIGBUS, "", (4, 4), "crashed because a weight file was changed or cut off while it was read"),
        (3, "", (4, 4), "stopped with exit code 3"),
    ],
)
def test_an_end_is_named_by_its_cause(
    monkeypatch: pytest.MonkeyPatch, code: int, log: str, kills: tuple[int | None, int | None], words: str
) -> None:
    monkeypatch.setattr(end_texts, "memory_kills", lambda: kills[1])
    assert describe_end(code, log, kills[0]).startswith(words)


def test_a_run_that_ends_its_engines_by_memory_names_what_to_lower() -> None:
    by_memory = Failed(job_id="a", error="-", engine_end="was killed because memory ran out")
    by_crash = Failed(job_id="a", error="-", engine_end="crashed with signal 11 (Segmentation fault)")
    assert describe_failure(Failed(job_id="a", error="A fault.")).endswith("the last fault was: A fault.")
    for word in ("batch size", "tokens", "number of engines", "dtype", "quantized"):
        assert word in describe_failure(by_memory)
        assert word not in describe_failure(by_crash)


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("Traceback\nThe library torch cannot be loaded.", "The engine could not start: The library torch cannot"),
        ("OpenBLAS error: Memory allocation still failed after 10 retries, giving up.", "because memory ran out"),
        ("", "The engine could not start: exit code 1"),
    ],
)
def test_an_engine_that_could_not_start_says_why(log: str, sentence: str) -> None:
    assert sentence in describe_start(1, log)
