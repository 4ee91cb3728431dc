"""Answers of a machine to requests about array jobs, some of which cannot be used."""

import shlex
import signal
import subprocess
import sys

import pytest

from tests.wina_core.remote.conftest import machine
from tests.wina_core.remote.fake_machine import FakeMachine, wait_until
from wina_core.errors import WinaError
from wina_core.remote.cluster import asking
from wina_core.remote.cluster.requests import ArrayDone, CancelArray, LookAtArray
from wina_core.remote.registry import save_machine

__all__ = ["machine"]

CANCEL = CancelArray(array="0" * 12)


def answering(machine: FakeMachine, program: str) -> None:
    command = shlex.join([sys.executable, "-c", f"import os, time; {program}"])
    save_machine(machine.machine.model_copy(update={"command": command}))


def test_an_answer_is_found_among_what_login_scripts_print(machine: FakeMachine) -> None:
    answering(machine, """print('Welcome!'); print('{"type":"array_done","refused":{}}'); print('Bye.')""")
    assert asking.ask(machine.name, CANCEL) == ArrayDone()


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("""print('{"type":"array_done","refused":{"-1":"x"}}')""", "cannot be used"),
        ("""print('{"type":"array_done","refused":[' + '[],' * 600_000 + ']}')""", "it has too many parts"),
        ("[os.write(1, b'x' * 65536) for _ in iter(int, 1)]", "more than 4 MiB"),
        ("time.sleep(60)", "did not answer in time"),
        ("raise SystemExit('wina: The disk is full.')", r"^The machine \S+ says: The disk is full\.$"),
        ("raise SystemExit('the reason')", r"ended with code 1 \(the reason\)"),
        ("pass", "ended with code 0"),
    ],
)
def test_answers_that_cannot_be_used_are_sentences(
    machine: FakeMachine, program: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_MAX_ANSWER", 2**22)
    monkeypatch.setattr(asking, "_PATIENCE_SECONDS", 2.0 if "sleep" in program else 60.0)
    answering(machine, program)
    with pytest.raises(WinaError, match=expected) as raised:
        asking.ask(machine.name, CANCEL)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b"\xff", b'{"type":"x"}', b'{"type":"cancel_array","array":"../x"}']
)
def test_a_faulty_request_is_refused(text: bytes) -> None:
    with pytest.raises(WinaError, match="is not understood"):
        asking.answer_json(text)


def test_a_request_of_another_computer_is_answered(home: object) -> None:  # noqa: ARG001 - sets WINA_HOME
    with pytest.raises(WinaError, match="is not known on this machine"):
        asking.answer_json(LookAtArray(array="0" * 12).model_dump_json().encode())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no Ctrl-C to one process")
def test_an_interrupted_program_ends_at_once(machine: FakeMachine) -> None:
    answering(machine, f"open('{machine.home / 'asked'}', 'w'); time.sleep(150)")
    lines = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)",  # background shells ignore it
        "from wina_core.remote.cluster.asking import ask",
        "from wina_core.remote.cluster.requests import CancelArray",
        f"ask('{machine.name}', CancelArray(array='{CANCEL.array}'))",
    )
    with subprocess.Popen([sys.executable, "-c", "; ".join(lines)], stderr=subprocess.PIPE) as process:
        wait_until((machine.home / "asked").exists)
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert b"KeyboardInterrupt" in errors
