"""The gatekeeper lets transformers' server see what is allowed alone."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from wina_core.compute.serving.gatekeeper import Gatekeeper
from wina_core.jobs.hosted import RequestFinished

KEY = "a key of many characters"
PLAIN, CHAT = "/v1/completions", "/v1/chat/completions"
ASKED = {"model": "tiny", "prompt": "Hello"}
SAID = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}
IMAGE = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}


class Turn:
    tokens, seconds = 3, 0.5

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def end(self) -> None:
        self.ended.set()


class Server:
    """A server behind the gatekeeper, whose answers take until `free` is set or their turn ends."""

    def __init__(self, **settings: Any) -> None:
        self.free, self.seen = asyncio.Event(), list[dict[str, Any]]()
        self.free.set()
        self.turns: list[Turn] = []
        self.log: list[RequestFinished] = []
        self.keeper = Gatekeeper(self._answer, self, "tiny", **{"chat": True, "report": self.log.append, **settings})

    def begin(self) -> Turn:
        self.turns.append(Turn())
        return self.turns[-1]

    async def _answer(self, _scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(json.loads((await receive())["body"] or b"{}"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        ends = [asyncio.ensure_future(event.wait()) for event in (self.free, *(turn.ended for turn in self.turns[-1:]))]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await send({"type": "http.response.body", "body": b"{}"})

    async def ask(
        self,
        path: str = PLAIN,
        body: Any = ASKED,
        method: str = "POST",
        gone: asyncio.Event | None = None,
        **named: str,
    ) -> tuple[int, str]:
        """Return status and sentence of an answer; `gone` is set when the client goes away."""
        rest, sent = [body if isinstance(body, bytes) else json.dumps(body).encode()], list[Any]()
        named = {"host": "localhost", "content-type": "application/json"} | named
        headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()]

        async def receive() -> Any:
            if rest:
                return {"type": "http.request", "body": rest.pop(), "more_body": False}
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.keeper({"type": "http", "method": method, "path": path, "headers": headers}, receive, send)
        return sent[0]["status"], json.loads(sent[-1].get("body") or b"{}").get("error", {}).get("message", "")


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(**arguments: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**arguments), 120))

    return run


@pytest.mark.parametrize(
    ("settings", "passed"),
    [
        ({"max_tokens": 5, "user": "me", "generation_config": "{}", "chat_template": "{{ 1 }}"}, {"max_tokens": 5}),
        ({"temperature": 1e-300}, {"temperature": 0.0}),  # it would overflow
        ({"stop": []}, {}),
    ],
)
@in_loop
async def test_a_request_is_passed_on_with_known_fields_alone(settings: Any, passed: Any) -> None:
    server = Server()
    assert (await server.ask(body=ASKED | settings))[0] == 200
    assert server.seen == [{**ASKED, "stream": False, **passed}]
    assert [(request.status, request.tokens, request.rate) for request in server.log] == [(200, 3, 6.0)]


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        (PLAIN, {**ASKED, "model": "../tiny"}, 404, "one model is 'tiny'"),
        (PLAIN, {**ASKED, "max_tokens": True}, 400, "max_tokens: it should be a valid integer"),
        (PLAIN, {**ASKED, "temperature": float("nan")}, 400, "temperature: it should be a finite number"),
        (PLAIN, {**ASKED, "stop": list("abcde")}, 400, "stop"),
        (PLAIN, b"[" * 100_000, 400, ""),
        (PLAIN, {**ASKED, "prompt": "a" * 2000}, 413, "larger than 1,000 bytes"),
        (CHAT, {**SAID, "chat_template_kwargs": {"chat_template": "{{ 1 }}"}}, 400, "chat_template"),
        (CHAT, {"model": "tiny", "messages": [{"role": "user", "content": [IMAGE]}]}, 400, "messages"),
        ("/load_model", {"model": "gpt2"}, 404, "There is no '/load_model'"),
        ("/v1/models", {}, 405, "GET"),
    ],
)
@in_loop
async def test_whatever_else_is_asked_for_is_refused_in_one_sentence(
    path: str, body: Any, status: int, sentence: str
) -> None:
    server = Server(max_body=1000 if status == 413 else 1_000_000)
    answer = await server.ask(path, body)
    assert (answer[0], sentence in answer[1]) == (status, True), answer
    assert not server.seen
    assert server.log[0].reason == answer[1]


@in_loop
async def test_a_key_is_needed_where_there_is_one() -> None:
    server = Server(key=KEY)
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": KEY}, {"authorization": f"Basic {KEY}"}):
        status, sentence = await server.ask(**headers)
        assert (status, "API key" in sentence) == (401, True)
    assert (await server.ask("/v1/models", method="GET"))[0] == 401
    assert (await server.ask(authorization=f"Bearer {KEY}", host="elsewhere.example"))[0] == 200
    assert (await server.ask("/health", method="GET"))[0] == 200


@in_loop
async def test_pages_of_other_sites_reach_nothing() -> None:
    server = Server()
    for host in ("evil.example:8000", "127.0.0.1.evil.example", "", "[::1]evil"):
        assert (await server.ask(host=host))[0] == 403
    for origin in ("https://evil.example", "null", "http://localhost.evil.example"):
        assert (await server.ask(origin=origin))[0] == 403
    assert (await server.ask(origin="http://localhost:3000"))[0] == 200
    assert (await server.ask(content_type="text/plain"))[0] == 415
    for host in ("localhost", "127.0.0.1", "[::1]:8000", "[::1]"):
        assert (await server.ask(host=host))[0] == 200


@in_loop
async def test_a_model_without_a_chat_template_says_so() -> None:
    assert "use /v1/completions" in (await Server(chat=False).ask(CHAT, SAID))[1]


@in_loop
async def test_a_client_that_goes_away_ends_its_answer() -> None:
    server, gone = Server(), asyncio.Event()
    server.free.clear()
    request = asyncio.ensure_future(server.ask(gone=gone))
    while not server.turns:
        await asyncio.sleep(0)
    gone.set()
    await request
    assert [entry.status for entry in server.log] == [499]
    assert server.turns[0].ended.is_set()


def test_the_error_of_a_generation_is_in_the_log_and_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("fastapi", "uvicorn", "openai"):
        pytest.importorskip(name, reason="needs the extra serve")
    from wina_core.compute.serving.gatekeeper import Refused
    from wina_core.compute.serving.server import Generation, _ServedModel

    class Failing:
        def generate(self, **_: object) -> None:
            raise ValueError('a "detail" of the machine')

    with pytest.raises(Refused, match="its log has the details"):
        _ServedModel(Failing(), Generation(threading.Event())).generate(generation_config=None)
    assert "of the machine" in caplog.text
