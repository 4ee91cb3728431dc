"""Gatekeeper in front of transformers' server: keys, sites, routes, size and fields of requests."""

import asyncio
import hmac
import ipaddress
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from wina_core.errors import WinaError, explain
from wina_core.jobs.hosted import RequestFinished

if TYPE_CHECKING:  # with torch, which takes seconds; a bad address is refused before that
    from wina_core.compute.serving.server import Generation, Generations

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
GONE = 499
"""Status in the log of a request whose client went away."""
FAILED = "The server failed; its log has the details."
"""Sentence of an unforeseen error."""
_OPEN = ("/v1/models", "/health")
"""Routes without a body."""
_UNGUARDED = "/health"
"""Route without a key."""
_MIN_TEMPERATURE = 1e-4
"""Lower ones overflow; they are 0, since even here a score that is higher by 0.01 is always chosen."""
StopString = Annotated[str, Field(min_length=1, max_length=64)]
"""Short, since transformers compares each with every token of the vocabulary first."""
_log = logging.getLogger(__name__)


def bind(host: str, port: int, *, has_key: bool) -> socket.socket:
    """Return a listening socket; raise WinaError for an unknown host, one that needs a key, and a port in use."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if has_key or is_loopback(str(address[0])):
            return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        raise WinaError(
            f"{host}, port {port}, cannot be listened on ({error}); choose another --port, or --host 127.0.0.1."
        ) from error
    raise WinaError(
        f"{host} can be reached by other machines, which needs an API key; set WINA_API_KEY or --api-key-file, or "
        "leave out --host."
    )


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class Refused(Exception):  # noqa: N818 - an answer, not an error of the server
    """A request that is answered with a status and one sentence."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers

    @property
    def content(self) -> bytes:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {"message": str(self), "type": kind, "param": None, "code": None}
        return json.dumps({"error": error}).encode()


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class ChatMessage(_Part):
    """A message of a conversation."""

    role: str
    content: str | list[dict[Literal["type", "text"], str]] | None = None
    """Text, or its parts; images, which transformers' server would read by path or URL, are refused."""
    tool_calls: list[dict[str, JsonValue]] | None = None
    tool_call_id: str | None = None


class Body(_Part):
    """Fields that are passed on; all others are ignored: some would set a template, or any setting of generation.

    Numbers have their ranges here, since one that overflows on a GPU ends its process.
    """

    is_chat: ClassVar[bool] = False
    model: str
    stream: bool = False
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: Annotated[
        float | None, BeforeValidator(lambda t: 0.0 if isinstance(t, float) and 0 < t < _MIN_TEMPERATURE else t)
    ] = Field(default=None, ge=0, le=10, allow_inf_nan=False)
    top_p: float | None = Field(default=None, gt=0, le=1)
    frequency_penalty: float | None = Field(default=None, gt=-1, le=2)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    # Ignored, they would give one answer for several, and none of the probabilities.
    n: Literal[1] | None = Field(default=None, exclude=True)
    logprobs: Literal[False, 0] | None = Field(default=None, exclude=True)
    stop: Annotated[
        StopString | Annotated[list[StopString], Field(max_length=4)] | None, BeforeValidator(lambda stop: stop or None)
    ] = None


class CompletionBody(Body):
    """Body of /v1/completions."""

    prompt: str = Field(min_length=1)


class ChatBody(Body):
    """Body of /v1/chat/completions."""

    is_chat: ClassVar[bool] = True
    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    tools: list[dict[str, JsonValue]] | None = None
    """Functions that the model may call, as chat templates show them."""
    chat_template_kwargs: dict[Literal["enable_thinking"], bool] | None = None


ROUTES: dict[str, type[Body]] = {"/v1/completions": CompletionBody, "/v1/chat/completions": ChatBody}
"""Bodies by the path that takes them."""


class Gatekeeper:
    """ASGI middleware that passes on allowed requests and refuses others in one sentence.

    Args:
        app: transformers' server, which generates one answer at a time.
        generations: Its generations.
        model: The one name of a model that requests may give.
        chat: Whether the model has a chat template.
        key: The API key; None for none.
        max_body: Most bytes of a request.
        report: Called at the end of each request.
    """

    def __init__(
        self,
        app: App,
        generations: "Generations",
        model: str,
        *,
        chat: bool,
        key: str | None = None,
        max_body: int = 1_000_000,
        report: Callable[[RequestFinished], None] = lambda _: None,
    ) -> None:
        self._app, self._generations, self._model, self._chat = app, generations, model, chat
        self._key = None if key is None else key.encode()
        self._max_body, self._report = max_body, report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass on the server's start and end."""
        if scope["type"] == "http":
            await self._answer(scope, receive, _Response(send))
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, response: "_Response") -> None:
        generation: Generation | None = None
        try:
            headers = dict(scope["headers"])
            self._check(scope["method"], scope["path"], headers)
            if scope["path"] in _OPEN:
                await self._app(scope, receive, response.send)
            else:
                body = self._parsed(scope["path"], await self._read(headers, receive))
                generation = self._generations.begin()
                watch = asyncio.ensure_future(_end_when_gone(receive, response, generation))
                try:
                    content = body.model_dump_json(exclude_none=True).encode()
                    # The body was written anew, so that the client's content-length no longer holds.
                    passed = {**scope, "headers": [(b"content-type", b"application/json")]}
                    await self._app(passed, _once(content), response.send)
                finally:
                    watch.cancel()
                    # A cancelled answer leaves its generation running on a thread.
                    generation.end()
        except Refused as error:
            await response.refuse(error)
        except Exception:
            _log.exception("A request failed.")
            await response.refuse(Refused(500, FAILED))
        finally:
            counts = {} if generation is None else {"tokens": generation.tokens, "seconds": generation.seconds}
            self._report(RequestFinished(path=scope["path"], status=response.status, reason=response.reason, **counts))

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

    async def _read(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Return the body; raise Refused for one that is too large or incomplete."""
        content, more = bytearray(), True
        too_large = Refused(413, f"The request is larger than {self._max_body:,} bytes; shorten it.")
        if int(headers.get(b"content-length", b"0")) > self._max_body:
            raise too_large
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(GONE, "The client went away.")
            content += message.get("body", b"")
            more = message.get("more_body", False)
            if len(content) > self._max_body:
                raise too_large
        return bytes(content)

    def _parsed(self, path: str, content: bytes) -> Body:
        """Return the body of a request; raise Refused for a wrong field, another model, and a chat without template."""
        try:
            body = ROUTES[path].model_validate_json(content)
        except ValidationError as error:
            raise Refused(400, explain(error)) from error
        if body.model != self._model:
            raise Refused(404, f"The model {body.model[:80]!r} is not served here; the one model is {self._model!r}.")
        if body.is_chat and not self._chat:
            raise Refused(400, f"{self._model} has no chat template; use /v1/completions.")
        return body


_BEARER = {"www-authenticate": "Bearer"}


class _Response:
    """The response to a request, as far as it was sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status, self.complete, self.reason = 0, False, ""

    async def send(self, message: Scope) -> None:
        await self._send(message)
        if message["type"] == "http.response.start":
            self.status = self.status or message["status"]
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
            if self.status >= 400:
                self.reason = self.reason or _sentence_of(message["body"])

    async def refuse(self, refused: Refused) -> None:
        """Send a refusal, unless a response has begun."""
        if self.status:
            return
        named = {"content-type": "application/json", **refused.headers}
        headers = [(name.encode(), value.encode()) for name, value in named.items()]
        await self.send({"type": "http.response.start", "status": refused.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": refused.content})


async def _end_when_gone(receive: Receive, response: _Response, generation: "Generation") -> None:
    """End a generation at its next token once its client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if not response.complete:  # clients may disconnect as soon as the response is whole
        response.status, response.reason = GONE, "The client went away."
        generation.end()


def _once(content: bytes) -> Receive:
    """Return a `receive` that gives one body and then waits for ever."""
    rest = [content]

    async def receive() -> Scope:
        if rest:
            return {"type": "http.request", "body": rest.pop(), "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    return receive


def _sentence_of(content: bytes) -> str:
    """Return the sentence of a refusal's answer; empty for another one."""
    try:
        return str(json.loads(content)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return ""


def _is_loopback_name(header: bytes) -> bool:
    """Return whether a Host or Origin header names this machine by a local name.

    Any other name may be that of a web page whose DNS entry points to this machine (DNS rebinding).
    """
    host = header.decode("latin-1")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name.lower() == "localhost" or is_loopback(name.strip("[]"))
