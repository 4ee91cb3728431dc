"""Checks of an installed workbench, from a wheel or as a bundle, through the programs that a user starts."""

import csv
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

STUDY = "demo-quick"
_JSON = {"Content-Type": "application/json"}
# Nothing listens at this port, so that a connection fails at once.
_CLOSED_PROXY = "http://127.0.0.1:9"
_LOADED = ": Load demo"
_WINDOW_SECONDS, _CLOSE_SECONDS = 300, 60


def environment(work: Path) -> dict[str, str]:
    """Return variables that keep all files in `work` and lead to no checkout and no network."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "WINA"))
    }
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _CLOSED_PROXY)
    return inherited | proxies | {"WINA_HOME": str(work / "home"), "HF_HOME": str(work / "hub")}


def check_commands(wina: Path, work: Path) -> None:
    """Run a study, its exports, its report and a search of tasks. Raises RuntimeError if one fails."""
    variables = environment(work)
    for words in (
        ["--version"],
        ["study", "list"],
        ["study", "run", STUDY],
        ["export", "results.csv", "--study", STUDY],
        ["report", STUDY, "--output-path", "report"],
        ["export-model", "sparse", "--sparsity", "0.5"],
        ["tasks", "hellaswag"],
    ):
        run([wina, *words], work, variables)
    with (work / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = sum(1 for _ in csv.DictReader(file))
    if not rows:
        raise RuntimeError("The export has no rows.")
    print(f"  {rows} metrics exported")


def check_server(wina: Path, work: Path) -> None:
    """Serve the model that `check_commands` exports, complete a prompt with it, and stop. Raises RuntimeError."""
    command = [wina, "serve", "sparse", "--port", "0", "--json"]
    print(f"  {wina.name} {' '.join(command[1:])}", flush=True)
    pipe = subprocess.PIPE
    with (
        # A file, because nobody reads a pipe meanwhile, and a full one would block the server.
        (work / "server.txt").open("w+b") as errors,
        subprocess.Popen(command, cwd=work, env=environment(work), stdin=pipe, stdout=pipe, stderr=errors) as server,
    ):
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            line = server.stdout.readline()
            if not line:
                raise RuntimeError(f"The server did not start: {(work / 'server.txt').read_text(errors='replace')}")
            prompt = {"model": "sparse", "prompt": "def main():", "max_tokens": 4}
            request = urllib.request.Request(
                f"{json.loads(line)['address']}/completions", json.dumps(prompt).encode(), _JSON
            )
            # Without the environment's proxy: the server listens on this machine.
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as response:
                tokens = json.load(response)["usage"]["completion_tokens"]
            server.stdin.close()  # the server stops once its parent's end of the pipe is closed
            if server.wait(_CLOSE_SECONDS) or not tokens:
                raise RuntimeError(f"The server completed {tokens} tokens and ended with status {server.returncode}.")
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"The server did not answer or stop: {error}") from error
        finally:
            server.kill()


def check_window(program: Path, work: Path, variables: dict[str, str]) -> None:
    """Open the window with the demo model, wait until an engine has loaded it, and close the window.

    Raises RuntimeError if that fails.
    """
    log = work / "home" / "log" / "window.log"
    print(f"  {program.name} --demo", flush=True)
    with (work / "window.txt").open("w+b") as output:
        window = subprocess.Popen(
            [program, "--demo"], cwd=work, env=environment(work) | variables, stdout=output, stderr=output
        )
        try:
            deadline = time.monotonic() + _WINDOW_SECONDS
            while not (log.exists() and any(_is_loaded(line) for line in log.read_text().splitlines())):
                if window.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    raise RuntimeError(f"The window did not load the demo model: {output.read().decode()}")
                time.sleep(0.2)
            window.terminate()
            status = window.wait(_CLOSE_SECONDS)
        finally:
            window.kill()
    if status and sys.platform != "win32":  # on Windows, terminating ends it without closing
        raise RuntimeError(f"The window closed with status {status}.")


def _is_loaded(line: str) -> bool:
    return line.endswith(_LOADED) and "done after" in line


def run(command: Sequence[object], folder: Path, variables: dict[str, str]) -> str:
    """Run a command and return its output. Raises RuntimeError with the end of it if the command fails."""
    words = [str(word) for word in command]
    print("  " + " ".join([Path(words[0]).name, *words[1:]]).partition("\n")[0], flush=True)
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise RuntimeError(f"Exit status {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return done.stdout
