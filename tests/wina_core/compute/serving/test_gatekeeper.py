"""The gatekeeper lets transformers' server see what is allowed alone, one request at a time."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import pytest

from wina_core.compute.serving.gatekeeper import Gatekeeper, RequestLimits
from wina_core.jobs.hosted import RequestFinished

KEY = "a key of many characters"
PLAIN, CHAT = "/v1/completions", "/v1/chat/completions"
ASKED = {"model": "tiny", "prompt": "Hello"}
SAID = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}
IMAGE = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}
CALL = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{no JSON"}}]}


@dataclass
class Turn:
    tokens: int = 3
    seconds: float = 0.5
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        self.ended.set()


class Server:
    """A server behind the gatekeeper, whose answers take until `free` is set or their turn ends."""

    def __init__(self, **settings: Any) -> None:
        self.free, self.seen = asyncio.Event(), list[dict[str, Any]]()
        self.free.set()
        self.turns: list[Turn] = []
        self.log: list[RequestFinished] = []
        settings = {"chat": True, "report": self.log.append, **settings}
        self.keeper = Gatekeeper(self._answer, self, "tiny", **settings)

    def begin(self, _max_tokens: int | None) -> Turn:
        self.turns.append(Turn())
        return self.turns[-1]

    async def _answer(self, _scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(json.loads((await receive())["body"] or b"{}"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        ends = [asyncio.ensure_future(event.wait()) for event in (self.free, *(turn.ended for turn in self.turns[-1:]))]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
        await send({"type": "http.response.body", "body": b"{}"})

    async def ask(
        self,
        path: str = PLAIN,
        body: Any = None,
        method: str = "POST",
        gone: asyncio.Event | None = None,
        **headers: str,
    ) -> tuple[int, str, dict[str, str]]:
        """Return status, sentence and headers of an answer; `gone` is set when the client goes away."""
        content = body if isinstance(body, bytes) else json.dumps(ASKED if body is None else body).encode()
        rest, sent = [content], list[Any]()

        async def receive() -> Any:
            if rest:
                return {"type": "http.request", "body": rest.pop(), "more_body": False}
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.keeper({**scope(**headers), "method": method, "path": path}, receive, send)
        if not sent:
            return 0, "", {}
        status, response_headers = (
            sent[0]["status"],
            {name.decode(): value.decode() for name, value in sent[0]["headers"]},
        )
        return status, json.loads(sent[-1].get("body") or b"{}").get("error", {}).get("message", ""), response_headers


async def settled() -> None:
    """Let all tasks go on until each waits: a request takes a few rounds of the loop to its turn."""
    for _ in range(100):
        await asyncio.sleep(0)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(**arguments: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**arguments), 120))

    return run


@in_loop
async def test_a_request_is_passed_on_with_known_fields_alone() -> None:
    server = Server()
    assert (await server.ask(body={**ASKED, "max_tokens": 5, "user": "me", "n": 1}))[0] == 200
    assert server.seen == [{"model": "tiny", "prompt": "Hello", "stream": False, "max_tokens": 5}]
    assert [(request.status, request.tokens, request.rate) for request in server.log] == [(200, 3, 6.0)]


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        (PLAIN, {**ASKED, "model": "../tiny"}, 404, "one model is 'tiny'"),
        (PLAIN, {"prompt": "Hello"}, 400, "model: it is missing"),
        (PLAIN, {**ASKED, "generation_config": "{}"}, 400, "generation_config: there is no such setting"),
        (PLAIN, {**ASKED, "prompt": ["a", "b"]}, 400, "prompt"),
        (PLAIN, {**ASKED, "max_tokens": True}, 400, "max_tokens: it should be a valid integer"),
        (PLAIN, {**ASKED, "temperature": float("nan")}, 400, "temperature: it should be a finite number"),
        (PLAIN, {**ASKED, "n": 2}, 400, "n: it should be 1"),
        (PLAIN, {**ASKED, "stop": list("abcde")}, 400, "stop: it should have at most 4 items, not 5."),
        (PLAIN, b"{not JSON", 400, "not valid JSON"),
        (PLAIN, b"[" * 100_000, 400, ""),
        (PLAIN, {**ASKED, "prompt": "a" * 2000}, 413, "larger than 1,000 bytes"),
        (CHAT, {**SAID, "chat_template_kwargs": {"chat_template": "{{ 1 }}"}}, 400, "chat_template"),
        (CHAT, {"model": "tiny", "messages": [{"role": "user", "content": [IMAGE]}]}, 400, "messages"),
        (CHAT, {"model": "tiny", "messages": [{"role": "user"}]}, 400, "messages[0]: it has no content"),
        (CHAT, {**SAID, "tools": [1]}, 400, "tools[0]"),
        (CHAT, {"model": "tiny", "messages": [CALL]}, 400, "function.arguments: it should be"),
        ("/load_model", {"model": "gpt2"}, 404, "There is no '/load_model'"),
        ("/docs", {}, 404, "There is no"),
        ("/v1/models", {}, 405, "GET"),
    ],
)
@in_loop
async def test_whatever_else_is_asked_for_is_refused_in_one_sentence(
    path: str, body: Any, status: int, sentence: str
) -> None:
    server = Server(limits=RequestLimits(body=1000 if status == 413 else 1_000_000))
    answer = await server.ask(path, body)
    assert (answer[0], sentence in answer[1]) == (status, True), answer
    assert not server.seen
    assert server.log[0].reason == answer[1]


@pytest.mark.parametrize(
    ("settings", "passed"),
    [
        ({"temperature": 1e-300}, {"temperature": 0.0}),  # it would overflow
        ({"stop": "end"}, {"stop": ["end"]}),
        ({"stop": [], "logprobs": None, "echo": False, "best_of": 1, "suffix": None}, {}),
    ],
)
@in_loop
async def test_settings_are_passed_on_in_one_form(settings: dict[str, Any], passed: dict[str, Any]) -> None:
    server = Server()
    assert (await server.ask(body=ASKED | settings))[0] == 200
    assert server.seen == [{**ASKED, "stream": False, **passed}]


@in_loop
async def test_a_key_is_needed_where_there_is_one() -> None:
    server = Server(key=KEY)
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": KEY},
        {"authorization": f"Basic {KEY}"},
    ):
        status, sentence, _ = await server.ask(**headers)
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
async def test_requests_wait_their_turn_and_too_many_are_sent_away() -> None:
    server = Server(limits=RequestLimits(waiting=1))
    server.free.clear()
    first, second = (asyncio.ensure_future(server.ask()) for _ in range(2))
    await settled()
    status, _, headers = await server.ask()
    assert (status, headers["retry-after"].isdecimal()) == (429, True)
    assert len(server.seen) == 1
    server.free.set()
    assert [(await request)[0] for request in (first, second)] == [200, 200]


@in_loop
async def test_a_client_that_goes_away_ends_its_turn_and_leaves_the_queue() -> None:
    server, gone, left = Server(), asyncio.Event(), asyncio.Event()
    server.free.clear()
    first, second = asyncio.ensure_future(server.ask(gone=gone)), asyncio.ensure_future(server.ask(gone=left))
    await settled()
    left.set()
    await second
    gone.set()
    await first
    assert [request.status for request in server.log] == [499, 499]
    assert (len(server.turns), server.turns[0].ended.is_set()) == (1, True)
    server.free.set()
    assert (await server.ask())[0] == 200


@in_loop
async def test_a_stop_ends_the_answer_and_refuses_those_that_wait() -> None:
    server = Server()
    server.free.clear()
    first, second = asyncio.ensure_future(server.ask()), asyncio.ensure_future(server.ask())
    await settled()
    server.keeper.stop()
    assert ((await first)[0], (await second)[0]) == (200, 503)


def scope(**headers: str) -> dict[str, Any]:
    named = {"host": "localhost", "content-type": "application/json"} | headers
    coded = [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()]
    return {"type": "http", "method": "POST", "path": PLAIN, "headers": coded}


def half_sent(server: Server) -> tuple[asyncio.Future[None], list[Any]]:
    """Return a request whose body does not end, and what is sent to it."""
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"{", "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    return asyncio.ensure_future(server.keeper(scope(), receive, send)), sent


@in_loop
async def test_a_request_that_never_ends_is_given_up() -> None:
    request, sent = half_sent(Server(limits=RequestLimits(body_seconds=0.05)))
    await request
    assert sent[0]["status"] == 408


@in_loop
async def test_half_sent_requests_keep_nobody_out() -> None:
    server = Server(limits=RequestLimits(waiting=1))
    slow = [half_sent(server) for _ in range(5)]
    await settled()
    assert (await server.ask())[0] == 200
    for request, _ in slow:
        request.cancel()


@in_loop
async def test_a_client_that_does_not_read_its_answer_is_given_up() -> None:
    server = Server(limits=RequestLimits(send_seconds=0.05))

    async def receive() -> Any:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": json.dumps(ASKED).encode()}

    await server.keeper(scope(), receive, lambda _: asyncio.sleep(60))
    assert (server.log[0].status, server.turns[0].ended.is_set()) == (499, True)
    assert (await server.ask())[0] == 200
