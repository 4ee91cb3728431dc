"""Gatekeeper in front of transformers' server: keys, routes, models, and limits of size and number of requests."""

import asyncio
import errno
import hmac
import ipaddress
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wina_core.compute.serving.requests import FAILED, ROUTES, Body, Refused, parse_body, sentence_of
from wina_core.errors import WinaError
from wina_core.jobs.hosted import RequestFinished

if TYPE_CHECKING:  # with torch, which takes seconds; a bad address is refused before that
    from wina_core.compute.serving.server import Generation, Generations

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
GONE = 499
"""Status in the log of a request whose client went away."""
_OPEN = ("/v1/models", "/health")
"""Routes without a body."""
_UNGUARDED = "/health"
"""Route without a key."""
_RETRY_SECONDS = "1"
_log = logging.getLogger(__name__)


def bind(host: str, port: int, *, has_key: bool) -> socket.socket:
    """Return a listening socket; raise WinaError for an unknown host, one that needs a key, and a port in use."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise WinaError(f'"{host}" is no address of this machine; --host 127.0.0.1 is the usual one.') from error
    if not has_key and not is_loopback(str(address[0])):
        raise WinaError(
            f"{host} can be reached by other machines, which needs an API key; set WINA_API_KEY or --api-key-file, or "
            "leave out --host."
        )
    listener = socket.socket(family, kind, number)
    try:
        if os.name == "posix":  # elsewhere it would take a port from another program
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # another program's claim of the port is known only now
    except OSError as error:
        listener.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            reason = "is in use by another program" if error.errno == errno.EADDRINUSE else "is not allowed to you"
            raise WinaError(f"The port {port} {reason}; choose another one by --port.") from error
        raise WinaError(f"{host} is no address to listen on ({error.strerror}); --host 127.0.0.1 is one.") from error
    return listener


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class RequestLimits:
    """Limits of a server."""

    body: int = 1_000_000
    """Most bytes of a request."""
    tokens: int = 2048
    """Most new tokens of an answer."""
    waiting: int = 16
    """Most requests that wait for the one being answered."""
    body_seconds: float = 10.0
    """Time for a request to arrive."""
    send_seconds: float = 30.0
    """Time for a client to take a part of its answer."""
    stop_seconds: float = 10.0
    """Time for answers to be finished once the server stops; then they end where they are."""


class Gatekeeper:
    """ASGI middleware that passes on allowed requests, one at a time, and refuses others in one sentence.

    Args:
        app: transformers' server.
        turns: Its generations.
        model: The one name of a model that requests may give.
        chat: Whether the model has a chat template.
        key: The API key; None for none.
        limits: Limits on requests.
        report: Called at the end of each request.
    """

    def __init__(
        self,
        app: App,
        turns: "Generations",
        model: str,
        *,
        chat: bool,
        key: str | None = None,
        limits: RequestLimits | None = None,
        report: Callable[[RequestFinished], None] = lambda _: None,
    ) -> None:
        self._app, self._turns, self._model, self._chat = app, turns, model, chat
        self._key = None if key is None else key.encode()
        self._limits, self._report = limits or RequestLimits(), report
        self._free = asyncio.Semaphore(1)
        self._inside = 0
        self._turn: Generation | None = None
        self._stopping = False

    def stop(self) -> None:
        """End the answer being generated at its next token, and refuse all that wait."""
        self._stopping = True
        if self._turn is not None:
            self._turn.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass on the server's start and end."""
        if scope["type"] == "http":
            await self._answer(scope, receive, _Exchange(send, self._limits.send_seconds))
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, exchange: "_Exchange") -> None:
        try:
            headers = dict(scope["headers"])
            self._check(scope["method"], scope["path"], headers)
            if scope["path"] in _OPEN:
                await self._app(scope, receive, exchange.send)
            else:
                body = parse_body(scope["path"], await self._read(headers, receive))
                self._check_model(body)
                with self._admitted():
                    await _unless_gone(self._in_turn(scope, body, exchange), receive, exchange)
        except Refused as error:
            await exchange.refuse(error)
        except _ClientGone:
            exchange.reason = "The client went away."
        except Exception:
            _log.exception("A request failed.")
            await exchange.refuse(Refused(500, FAILED))
        finally:
            turn = exchange.turn
            counts = {} if turn is None else {"tokens": turn.tokens, "seconds": turn.seconds}
            self._report(RequestFinished(path=scope["path"], status=exchange.status, reason=exchange.reason, **counts))

    def _check(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise Refused for a wrong key, a page of another site, and an unknown route."""
        if self._key is None:  # any web page can send requests to localhost, but Host or Origin name its site
            if not _is_loopback_name(headers.get(b"host", b"")):
                raise Refused(403, "Without an API key only requests to localhost are answered.")
            if b"origin" in headers and not _is_loopback_name(headers[b"origin"].partition(b"://")[2]):
                raise Refused(403, "Without an API key no page of another site is answered.")
        elif path != _UNGUARDED:
            scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
            # In constant time, so that response times do not reveal the key.
            if not (hmac.compare_digest(token.strip(), self._key) and scheme.lower() == b"bearer"):
                raise Refused(401, "The API key is missing or wrong; give the server's key.", **_BEARER)
        if path not in ROUTES and path not in _OPEN:
            raise Refused(404, f"There is no {path[:80]!r}; the routes are {', '.join((*ROUTES, *_OPEN))}.")
        allowed = "GET" if path in _OPEN else "POST"
        if method != allowed:
            raise Refused(405, f"{path} takes {allowed}, not {method}.", allow=allowed)
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if path in ROUTES and kind != b"application/json":  # others are sent by any page of a browser
            raise Refused(415, "A request must have the content type application/json.")

    def _check_model(self, body: Body) -> None:
        if body.model != self._model:
            raise Refused(404, f"The model {body.model[:80]!r} is not served here; the one model is {self._model!r}.")
        if body.is_chat and not self._chat:
            raise Refused(400, f"{self._model} has no chat template; use /v1/completions.")

    async def _read(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Return the body; raise Refused for one that is too large or too slow."""
        limits, content = self._limits, bytearray()
        too_large = Refused(413, f"The request is larger than {limits.body:,} bytes; shorten it.")
        if int(headers.get(b"content-length", b"0")) > limits.body:
            raise too_large
        try:
            async with asyncio.timeout(limits.body_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientGone
                    content += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(content) > limits.body:
                        raise too_large
        except TimeoutError as error:
            raise Refused(408, f"The request did not arrive within {limits.body_seconds:g} seconds.") from error
        return bytes(content)

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        """Count a request that has arrived while it waits and is answered; raise Refused if too many wait.

        One that is still being read has no place: slow clients would take the places of others.
        """
        if self._inside > self._limits.waiting:  # one of those inside is being answered
            sentence = f"{self._limits.waiting} requests wait already; try again later."
            raise Refused(429, sentence, **{"retry-after": _RETRY_SECONDS})
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    async def _in_turn(self, scope: Scope, body: Body, exchange: "_Exchange") -> None:
        """Wait for the turn of a request and pass it on."""
        async with self._free:
            if self._stopping:
                raise Refused(503, "The server is stopping.")
            exchange.turn = self._turn = self._turns.begin(body.requested_tokens)
            try:
                content = body.model_dump_json(exclude_none=True).encode()
                # The body was written anew, so that the client's content-length no longer holds.
                passed = {**scope, "headers": [(b"content-type", b"application/json")]}
                await self._app(passed, _once(content), exchange.send)
            finally:
                # A cancelled answer leaves its generation running on a thread.
                exchange.turn.end()


_BEARER = {"www-authenticate": "Bearer"}


class _ClientGone(Exception):  # noqa: N818 - no error of ours
    pass


class _Exchange:
    """The response to a request, as far as it was sent."""

    def __init__(self, send: Send, seconds: float) -> None:
        """`seconds` is the time for the client to take a part."""
        self._send, self._seconds, self._status = send, seconds, 0
        self.complete, self.reason = False, ""
        self.turn: Generation | None = None

    @property
    def status(self) -> int:
        """Return the status; GONE for an incomplete response."""
        return self._status if self.complete else GONE

    async def send(self, message: Scope) -> None:
        """Send a part; raise _ClientGone if the client does not take it."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError as error:
            raise _ClientGone from error
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
            if self._status >= 400:
                self.reason = sentence_of(message["body"])

    async def refuse(self, refused: Refused) -> None:
        """Send a refusal, unless a response has begun."""
        if self._status:
            return
        named = {"content-type": "application/json", **refused.headers}
        headers = [(name.encode(), value.encode()) for name, value in named.items()]
        await self.send({"type": "http.response.start", "status": refused.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": refused.content})


async def _unless_gone(work: Coroutine[Any, Any, None], receive: Receive, exchange: _Exchange) -> None:
    """Do the work of a response; if its client disconnects first, end it and raise _ClientGone."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        # Clients may disconnect as soon as the response is whole.
        if not working.done() and not exchange.complete:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
            raise _ClientGone
        await working
    finally:
        working.cancel()
        gone.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _once(content: bytes) -> Receive:
    """Return a `receive` that gives one body and then waits for ever."""
    rest = [content]

    async def receive() -> Scope:
        if rest:
            return {"type": "http.request", "body": rest.pop(), "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    return receive


def _is_loopback_name(header: bytes) -> bool:
    """Return whether a Host or Origin header names this machine by a local name.

    Any other name may be that of a web page whose DNS entry points to this machine (DNS rebinding).
    """
    host = header.decode("latin-1")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name.lower() == "localhost" or is_loopback(name.strip("[]"))
