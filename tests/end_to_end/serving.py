"""A sparse model and its server in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wina_core.compute.gating import attach
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.compute.sparse.export import save_sparse
from wina_core.specs import NO_ROTATION, MethodSpec, ModelSource
from wina_core.specs.plans import UniformSparsity, resolve_plan

ROOT = Path(__file__).parents[2]
CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "{% if messages[0].role == 'tool' %}{{ raise_exception('A tool cannot speak first') }}{% endif %}"
)


def sparse_folder(source: str, folder: Path, *, chat: bool = False) -> Path:
    """Export a model gated at one half; with a chat template on demand."""
    half, method, session, reporter = UniformSparsity(sparsity=0.5), MethodSpec(name="wina"), Session(), NullReporter()
    loaded = session.prepare(ModelSource(location=source), NO_ROTATION, reporter)
    if chat:
        loaded.tokenizer.chat_template = CHAT_TEMPLATE
    with attach(loaded, method, half, None) as gates:
        save_sparse(loaded, gates, method, resolve_plan(half, loaded.view.layout, method).targets, folder)
    return folder


class Server:
    """A running `wina serve`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.errors: deque[str] = deque(maxlen=50)
        threading.Thread(target=self._read_errors, daemon=True).start()
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (process.wait(), *self.errors)
        self.listening: dict[str, Any] = json.loads(line)
        self.log: deque[dict[str, Any]] = deque(maxlen=1000)
        threading.Thread(target=self._read_log, daemon=True).start()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(120)

    def _read_log(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.log.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)


@contextmanager
def serving(*words: object, **variables: str) -> Iterator[Server]:
    """Yield a server of a folder, and end it."""
    command = [sys.executable, "-P", "-m", "wina_core.cli", "serve", *words, "--port", 0, "--json"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **variables},
    )
    try:
        yield Server(process)
    finally:
        process.kill()
        process.wait()
