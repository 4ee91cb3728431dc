"""Refusals of requests, in the form of OpenAI's errors."""

import json
from typing import Any

FAILED = "The server failed; its log has the details."
"""Sentence of an unforeseen error."""


_CODES = {401: "invalid_api_key", 404: "not_found", 429: "rate_limit_exceeded"}
"""OpenAI's codes by status; clients expect a text or null."""


class Refused(Exception):  # noqa: N818 - an answer, not an error of the server
    """A request that is answered with a status and one sentence."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers

    @property
    def content(self) -> bytes:
        """Return the JSON of the answer."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {"message": str(self), "type": kind, "param": None, "code": _CODES.get(self.status)}
        return json.dumps({"error": error}).encode()


def sentence_of(content: bytes) -> str:
    """Return the sentence of a refusal's answer; empty for another one."""
    try:
        found: Any = json.loads(content)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        return ""
    return str(found)
