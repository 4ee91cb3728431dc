"""Questions to a machine over a real ssh, and answers that cannot be trusted."""

import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wina_core.remote.machines.sshd import SshServer
from tests.wina_core.tiny import tiny_folder
from wina_core import __version__
from wina_core.errors import WinaError
from wina_core.files.version import PROTOCOL
from wina_core.model_info.resolve import resolve
from wina_core.remote.machines.answers import list_folder, parse_devices, serve
from wina_core.remote.machines.ask import Conversation, ask
from wina_core.remote.machines.messages import (
    Echo,
    Echoed,
    FolderListing,
    FolderQuestion,
    MachineFacts,
    ModelQuestion,
    Nothing,
    ResolvedModel,
)
from wina_core.specs import ModelSource

ODD = 'it\'s $(id) `x`\n-"a" *'


def test_one_connection_answers_about_the_machine(sshd: SshServer) -> None:
    tiny_folder(sshd.home / "models" / ODD)
    sshd.give(sshd.home / "models")
    with Conversation(sshd.machine()) as conversation:
        facts = conversation.ask("describe", Nothing(), MachineFacts)
        assert (facts.program, facts.protocol, facts.home) == (__version__, PROTOCOL, str(sshd.home))
        assert facts.data_folder.startswith(str(sshd.home))
        assert facts.cpus > 0 < facts.memory_free <= facts.memory_total
        listing = conversation.ask("list_folder", FolderQuestion(path="~/models"), FolderListing)
        assert [(entry.name, entry.is_model, bool(entry.size)) for entry in listing.folders] == [(ODD, True, True)]
        question = ModelQuestion(model=ModelSource(location=f"{listing.path}/{ODD}"))
        assert conversation.ask("resolve_model", question, ResolvedModel).model == resolve(question.model)
        with pytest.raises(WinaError, match=r"away: The folder /nowhere cannot be listed \(No such file"):
            conversation.ask("list_folder", FolderQuestion(path="/nowhere"), FolderListing)
        echoed = conversation.ask("echo", Echo(text="ä\n", reply=10_000), Echoed)
        assert (echoed.received, len(echoed.text)) == (2, 10_000)


def test_what_a_login_script_prints_is_left_out(sshd: SshServer) -> None:
    program = shlex.join([*sshd.machine().command])
    script = f'echo "Welcome!"; echo "{{}}"; exec {program} "$@"'
    machine = sshd.machine(command=("sh", "-c", script, "sh"))
    assert ask(machine, "echo", Echo(text="abc"), Echoed).received == 3


def answering(sshd: SshServer, program: str) -> WinaError:
    """Return the error of asking a machine whose program prints something else."""
    machine = sshd.machine(command=(str(sshd.python), "-c", f"import sys, time, os\n{program}"))
    with Conversation(machine) as conversation, pytest.raises(WinaError) as raised:
        conversation.ask("echo", Echo(), Echoed, patience=1.0 if "sleep" in program else 120.0, most_bytes=2**25)
    return raised.value


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ('print(\'{"wina_answer":2,"program":"9.9"}\')', f"wina 9.9 with protocol 2, .* wina {__version__} with"),
        ('print(\'{"wina_answer":1,"program":"1","result":{"received":-1}}\')', "cannot be used"),
        ("print('{\"wina_answer\":1')", "cannot be used"),
        ("while True: os.write(1, b'x' * 65536)", "something other than an answer"),
        ("while True: os.write(1, b'\\n')", "something other than an answer"),
        ('print(\'{"wina_answer":1,"program":"","result":{"a":[\' + \'[],\' * 6_000_000)', "it has too many parts"),
        ("time.sleep(60)", "did not answer in time"),
        ("sys.exit('No such command remote')", "is older than this one"),
        ("sys.exit('the reason')", r"ended with code 1 \(the reason\)"),
        ("sys.exit('wina: The disk is full.')", r"^The machine \S+ says: The disk is full\.$"),
    ],
)
def test_answers_that_cannot_be_used_are_sentences(sshd: SshServer, program: str, expected: str) -> None:
    assert re.search(expected, str(answering(sshd, program)))


@pytest.mark.parametrize(
    "question",
    [
        *(b"", b"[]", b"{", b"\xff"),
        b'{"protocol":1,"operation":"x","arguments":{}}',
        b'{"protocol":7,"operation":"echo","arguments":{}}',
        b'{"protocol":1,"operation":"echo","arguments":{"reply":1e18}}',
        b'{"protocol":1,"operation":"list_folder","arguments":{"path":"\\u0000"}}',
    ],
)
def test_faulty_questions_get_an_error_and_the_next_one_an_answer(question: bytes) -> None:
    answers = io.BytesIO()
    serve(io.BytesIO(question + b'\n{"protocol":1,"operation":"echo","arguments":{"text":"ab"}}\n'), answers)
    refused, answered = map(json.loads, answers.getvalue().splitlines())
    assert refused["error"]
    assert answered["result"]["received"] == 2


def test_folders_and_gguf_files_are_listed_and_no_other_files(tmp_path: Path) -> None:
    tiny_folder(tmp_path / "model")
    (tmp_path / "empty").mkdir()
    for name in ("tiny.Q4_0.GGUF", "notes.txt", ".hidden.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    found = list_folder(FolderQuestion(path=str(tmp_path)))
    assert [(entry.name, entry.is_model, entry.is_file) for entry in found.folders] == [
        ("empty", False, False),
        ("model", True, False),
        ("tiny.Q4_0.GGUF", True, True),
    ]
    assert found.folders[2].size == 4


def test_devices_are_read_from_nvidia_smi() -> None:
    found = parse_devices("NVIDIA H100, 80GB, 81559, 81000\nOther, [N/A], [N/A]\n\n")
    assert [(device.name, device.memory_total) for device in found] == [("NVIDIA H100, 80GB", 81559 * 2**20)]


def test_nothing_heavy_is_loaded_to_ask_or_answer() -> None:
    code = "import sys, wina_core.remote.machines.ask, wina_core.remote.machines.answers; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "sqlalchemy", "numpy"} & set(loaded.split())
