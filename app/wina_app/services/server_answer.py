"""An answer of an OpenAI-compatible server, as it streams in."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from PySide6.QtCore import QByteArray, QObject, QUrl, Signal
from PySide6.QtNetwork import QNetworkAccessManager, QNetworkProxy, QNetworkReply, QNetworkRequest

_DATA, _DONE = b"data:", b"[DONE]"


class StreamParser:
    """Parser of server-sent events; keeps the beginning of an event that has not ended."""

    def __init__(self) -> None:
        self._rest = b""
        self.end = ""
        """Reason why the answer ended, in the API's words; empty while it grows."""
        self.error = ""

    def feed(self, content: bytes) -> Iterator[str]:
        """Yield the pieces of text that a part of the response completes."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            data = line.removeprefix(_DATA).strip()
            if line.startswith(_DATA) and data != _DONE:
                yield from self._pieces(data)

    def _pieces(self, data: bytes) -> Iterator[str]:
        try:
            event = json.loads(data)
            if "error" in event:
                self.error = _sentence(event)
                return
            choice = event["choices"][0]
            text = choice["delta"].get("content") if "delta" in choice else choice["text"]
        except (ValueError, LookupError, TypeError, AttributeError):
            self.error = data.decode(errors="replace")[:200]
            return
        self.end = choice.get("finish_reason") or self.end
        if text:
            yield text


class ServerAnswer(QObject):
    """One request and its answer; deleted after its end."""

    piece = Signal(str)
    ended = Signal(str, str)
    """Reason of the end in the API's words, "stopped" after `stop`; and the sentence of a failure."""

    def __init__(self, url: str, body: Mapping[str, Any], key: str | None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._parser, self._stopped = StreamParser(), False
        manager = QNetworkAccessManager(self)
        # The server is on this computer, which a proxy of the system cannot reach.
        manager.setProxy(QNetworkProxy(QNetworkProxy.ProxyType.NoProxy))
        request = QNetworkRequest(QUrl(url))
        request.setHeader(QNetworkRequest.KnownHeaders.ContentTypeHeader, "application/json")
        if key is not None:
            request.setRawHeader(b"Authorization", f"Bearer {key}".encode())
        self._reply = manager.post(request, QByteArray(json.dumps({**body, "stream": True}).encode()))
        self._reply.readyRead.connect(self._on_ready)
        self._reply.finished.connect(self._on_finished)
        self.ended.connect(self.deleteLater)

    def stop(self) -> None:
        """Close the connection, at which the server ends the answer."""
        self._stopped = True
        self._reply.abort()

    def _on_ready(self) -> None:
        # The body of a refusal is one JSON text, read at its end.
        if not self._refused:
            for text in self._parser.feed(bytes(self._reply.readAll().data())):
                self.piece.emit(text)

    @property
    def _refused(self) -> bool:
        return int(self._reply.attribute(QNetworkRequest.Attribute.HttpStatusCodeAttribute) or 0) >= 400

    def _on_finished(self) -> None:
        if self._stopped:
            self.ended.emit("stopped", "")
        elif self._refused:
            self.ended.emit("stopped", _refusal(bytes(self._reply.readAll().data())) or self._reply.errorString())
        elif self._reply.error() != QNetworkReply.NetworkError.NoError:
            self.ended.emit("stopped", self._reply.errorString())
        else:
            self._on_ready()
            self.ended.emit(self._parser.end or "stopped", self._parser.error)


def _refusal(content: bytes) -> str:
    try:
        return _sentence(json.loads(content))
    except (ValueError, LookupError, TypeError):
        return ""


def _sentence(event: Any) -> str:
    """Return the sentence of an error, in OpenAI's form or as a text alone."""
    error = event["error"]
    return str(error["message"] if isinstance(error, dict) else error)
