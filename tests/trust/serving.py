"""Requests by the hundred, with clients that are killed and cancelled: `python -m tests.trust.serving --requests 200`.

A server of the sparse demo model gets 8 requests at a time by OpenAI's client: plain and streamed, some too long, with
a wrong model or a wrong key. Some clients close their stream in the middle or give up waiting, some send half a
request, and some are processes that are killed. Bars: each request is answered or refused with a sentence, the server
stays and answers the last one, and from the end of a warm-up its memory grows by less than 20 MB.
"""

import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.trust.attack import options, verdict

MEGABYTES = 20.0
AT_ONCE, WARM_UP = 8, 40
_KEY = "a-key-of-this-attack-alone"
_CLIENT = """
import openai, sys
client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
for piece in client.completions.create(model=sys.argv[3], prompt="def f(", max_tokens=400, stream=True):
    print(piece.choices[0].text, flush=True)
"""
KINDS = (
    *("plain", "plain", "stream", "stream", "close", "give up", "kill", "half"),
    *("long", "other model", "wrong key", "chat"),
)
EXPECTED = {
    "plain": {"answered"},
    "stream": {"answered"},
    "close": {"closed"},
    "give up": {"given up", "answered"},
    "kill": {"killed"},
    "long": {"answered"},
    "other model": {"refused 404"},
    "wrong key": {"refused 401"},
    "chat": {"refused 400"},
    "half": {"left"},
}
"""Ends of each kind of request."""


class Attack:
    """Requests of all kinds to one server."""

    def __init__(self, address: str, model: str) -> None:
        import openai

        self._openai, self._address, self._model = openai, address, model
        self._client = openai.OpenAI(base_url=address, api_key=_KEY, max_retries=0, timeout=120)

    def ask(self, kind: str, number: int) -> str:
        """Send one request and return how it ended."""
        try:
            return {"kill": self._kill, "half": self._send_half}.get(kind, lambda: self._ask(kind, number))()
        except self._openai.APITimeoutError:
            return "given up"
        except self._openai.APIStatusError as error:
            sentence = (error.body or {}).get("message", "") if isinstance(error.body, dict) else ""
            return f"refused {error.status_code}" if sentence.endswith(".") else f"unclear {error!r}"
        except Exception as error:
            return f"unclear {error!r}"

    def _ask(self, kind: str, number: int) -> str:
        streams, seconds = kind in ("stream", "close"), 1.0 if kind == "give up" else 120
        client = self._client.with_options(timeout=seconds, api_key="wrong" if kind == "wrong key" else _KEY)
        model = "openai-community/gpt2" if kind == "other model" else self._model
        if kind == "chat":
            client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hello"}])
            return "answered"
        answer = client.completions.create(
            model=model,
            prompt=f"def f{number}(x):\n",
            max_tokens=400 if kind in ("close", "give up", "long") else 16,
            seed=number,
            temperature=number % 2,
            stream=streams,
        )
        if kind == "close":
            next(iter(answer))
            answer.close()
            return "closed"
        last = list(answer)[-1] if streams else answer
        return "answered" if last.choices[0].finish_reason else "unclear: no finish"

    def _send_half(self) -> str:
        """Go away in the middle of a request, after a while."""
        place = urlsplit(self._address)
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {_KEY}\r\n"
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{{".encode())
            time.sleep(2)
        return "left"

    def _kill(self) -> str:
        """Kill a client after its first token."""
        command = [sys.executable, "-c", _CLIENT, self._address, _KEY, self._model]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            process.kill()
        return "killed" if line else "unclear: no token"


def attack(requests: int, seed: int) -> dict[str, Any]:
    """Return the report of an attack on a server of the sparse demo model."""
    import psutil

    from tests.end_to_end.serving import serving, sparse_folder

    with tempfile.TemporaryDirectory() as home:
        folder = sparse_folder("demo", Path(home) / "sparse-demo")
        with serving(folder, "--max-new-tokens", 400, WINA_API_KEY=_KEY, WINA_HOME=home) as server:
            process = psutil.Process(server.process.pid)
            attacker = Attack(server.listening["address"], server.listening["model"])
            warm = _wave(attacker, WARM_UP, seed)
            before = process.memory_info().rss / 1e6
            ends = _wave(attacker, requests, seed + 1)
            last = attacker.ask("plain", 0)
            time.sleep(1)
            after = process.memory_info().rss / 1e6
            code = server.stop()
            faults = list(server.errors)
    return {
        "requests": requests,
        "ends": dict(Counter(f"{kind}: {end}" for kind, end in ends).most_common()),
        "unclear": [f"{kind}: {end}" for kind, end in warm + ends if end not in EXPECTED[kind]],
        "megabytes": [round(before, 1), round(after, 1)],
        "last": last,
        "exit_code": code,
        "errors": faults,
    }


def faults_of(report: dict[str, Any]) -> list[str]:
    """Return the bars that an attack missed."""
    before, after = report["megabytes"]
    bars = {
        "unclear answers": not report["unclear"],
        "no last answer": report["last"] == "answered",
        "a bad end": report["exit_code"] == 0,
        "errors of the server": not report["errors"],
        "memory": after - before < MEGABYTES,
    }
    return [name for name, is_met in bars.items() if not is_met]


def _wave(attacker: Attack, requests: int, seed: int) -> list[tuple[str, str]]:
    """Return the kinds and ends of so many requests, several at once, in an order by the seed."""
    kinds = [KINDS[number % len(KINDS)] for number in range(requests)]
    random.Random(seed).shuffle(kinds)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(zip(kinds, pool.map(attacker.ask, kinds, range(requests)), strict=True))


def main() -> int:
    """Run an attack, print its report, and return the exit status."""
    given = options(__doc__, requests=200, seed=0)
    report = attack(given.requests, given.seed)
    return verdict("serving", report, faults_of(report))


if __name__ == "__main__":
    sys.exit(main())
