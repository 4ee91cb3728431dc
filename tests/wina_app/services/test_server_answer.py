"""Answers of a server stream in, whatever the pieces of the network are."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from wina_app.services.server_answer import ServerAnswer, StreamParser


def event(text: str, end: str | None = None) -> bytes:
    return f"data: {json.dumps({'choices': [{'text': text, 'finish_reason': end}]})}\n\n".encode()


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_are_read_in_pieces_of_any_size(size: int) -> None:
    chat = {"choices": [{"delta": {"content": "!"}}]}
    content = event("Grüße") + event("") + f"data: {json.dumps(chat)}\n\n".encode() + event("", "length")
    parser = StreamParser()
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    assert [text for part in parts for text in parser.feed(part)] == ["Grüße", "!"]
    assert (parser.end, parser.error) == ("length", "")


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ('{"error": "it failed"}', "it failed"),
        ('{"error": {"message": "it failed", "type": "server_error"}}', "it failed"),
        ("nothing", "nothing"),
        ("[1]", "[1]"),
    ],
)
def test_a_failure_in_the_stream_is_kept(event: str, error: str) -> None:
    parser = StreamParser()
    assert list(parser.feed(f"data: {event}\n".encode())) == []
    assert parser.error == error


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        right = self.headers["Authorization"] == "Bearer right"
        self.send_response(200 if right else 401)
        self.end_headers()
        refusal = json.dumps({"error": {"message": "The key is wrong."}}).encode()
        self.wfile.write(event(asked["prompt"]) + event("", "stop") if right else refusal)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/completions"
        server.shutdown()


@pytest.mark.parametrize(
    ("key", "expected"), [("right", (["Hello"], ["stop", ""])), ("wrong", ([], ["stopped", "The key is wrong."]))]
)
def test_an_answer_ends_with_a_reason_or_a_sentence_and_is_deleted(
    qtbot: Any, url: str, key: str, expected: Any
) -> None:
    answer = ServerAnswer(url, {"prompt": "Hello"}, key)
    pieces: list[str] = []
    answer.piece.connect(pieces.append)
    with qtbot.waitSignal(answer.destroyed), qtbot.waitSignal(answer.ended) as ended:
        pass
    assert (pieces, ended.args) == expected
