"""Bodies of requests, with every field that is passed on to transformers' server; all others are refused.

transformers' server would also take generation settings and chat templates from a request, and read images by path or
URL.
"""

import json
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from wina_core.errors import explain

FAILED = "The server failed; its log has the details."
"""Sentence of an unforeseen error."""
_CODES = {401: "invalid_api_key", 404: "not_found", 429: "rate_limit_exceeded"}
"""OpenAI's codes by status; clients expect a text or null."""
_MAX_STOPS, _MAX_STOP_CHARACTERS = 4, 64
_SEEDS = 2**63
_MIN_TEMPERATURE = 1e-4
"""Lower ones overflow; they are 0, since even here a score that is higher by 0.01 is always chosen."""
StopString = Annotated[str, Field(min_length=1, max_length=_MAX_STOP_CHARACTERS)]


class Refused(Exception):  # noqa: N818 - an answer, not an error of the server
    """A request that is answered with a status and one sentence."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers

    @property
    def content(self) -> bytes:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {"message": str(self), "type": kind, "param": None, "code": _CODES.get(self.status)}
        return json.dumps({"error": error}).encode()


def sentence_of(content: bytes) -> str:
    """Return the sentence of a refusal's answer; empty for another one."""
    try:
        sentence: Any = json.loads(content)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        return ""
    return str(sentence)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class TextPart(_Part):
    """A part of a message."""

    type: Literal["text"]
    text: str


class FunctionCall(_Part):
    """The function that a model called."""

    name: str
    arguments: dict[str, JsonValue] | Json[dict[str, JsonValue]]


class ToolCall(_Part):
    """A call in an earlier message of the assistant."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(_Part):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    tool_calls: list[ToolCall] | None = Field(default=None, min_length=1)
    tool_call_id: str | None = None
    name: str | None = Field(default=None, exclude=True)

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.content is None and not self.tool_calls:
            raise ValueError("it has no content")
        return self


def _listed(stop: object) -> object:
    return [stop] if isinstance(stop, str) else stop or None


class Body(_Part):
    """Fields of both kinds."""

    is_chat: ClassVar[bool] = False
    model: str
    stream: bool = False
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=10, allow_inf_nan=False)
    top_p: float | None = Field(default=None, gt=0, le=1)
    frequency_penalty: float | None = Field(default=None, gt=-1, le=2)
    seed: int | None = Field(default=None, ge=-_SEEDS, lt=_SEEDS)
    stop: Annotated[Annotated[list[StopString], Field(max_length=_MAX_STOPS)] | None, BeforeValidator(_listed)] = None
    # Settings without an effect here, which some clients always send.
    n: Literal[1, None] = Field(default=None, exclude=True)
    presence_penalty: Literal[0, None] = Field(default=None, exclude=True)
    stream_options: dict[str, JsonValue] | None = Field(default=None, exclude=True)
    user: str | None = Field(default=None, exclude=True)

    @field_validator("temperature")
    @classmethod
    def _without_overflow(cls, temperature: float | None) -> float | None:
        return 0.0 if temperature is not None and temperature < _MIN_TEMPERATURE else temperature

    @property
    def requested_tokens(self) -> int | None:
        return self.max_tokens


class CompletionBody(Body):
    """Body of /v1/completions."""

    prompt: str = Field(min_length=1)
    best_of: Literal[1, None] = Field(default=None, exclude=True)
    echo: Literal[False, None] = Field(default=None, exclude=True)
    logprobs: None = Field(default=None, exclude=True)
    suffix: Literal["", None] = Field(default=None, exclude=True)


class ChatBody(Body):
    """Body of /v1/chat/completions."""

    is_chat: ClassVar[bool] = True

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    tools: list[dict[str, JsonValue]] | None = None
    """Functions that the model may call, as chat templates show them."""
    chat_template_kwargs: dict[Literal["enable_thinking"], bool] | None = None
    tool_choice: Literal["auto", None] = Field(default=None, exclude=True)
    parallel_tool_calls: bool | None = Field(default=None, exclude=True)
    metadata: dict[str, JsonValue] | None = Field(default=None, exclude=True)
    store: Literal[False, None] = Field(default=None, exclude=True)
    logprobs: Literal[False, None] = Field(default=None, exclude=True)
    top_logprobs: Literal[0, None] = Field(default=None, exclude=True)
    response_format: dict[Literal["type"], Literal["text"]] | None = Field(default=None, exclude=True)

    @property
    def requested_tokens(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


ROUTES: dict[str, type[Body]] = {"/v1/completions": CompletionBody, "/v1/chat/completions": ChatBody}
"""Bodies by the path that takes them."""


def parse_body(path: str, content: bytes) -> Body:
    """Return the body of a request; raise Refused for one with a wrong or an unknown field."""
    try:
        return ROUTES[path].model_validate_json(content)
    except ValidationError as error:
        raise Refused(400, explain(error)) from error
