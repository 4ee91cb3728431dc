"""OpenAI's client and `wina serve`: answers, streams and a clean stop.

Refusals and cancellations are tested without a server, in wina_core/compute/serving.
"""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import wina_core.hf  # noqa: F401
from tests.end_to_end.serving import Server, serving, sparse_folder
from tests.wina_core.tiny import tiny_folder

openai = pytest.importorskip("openai", reason="needs the extra serve")
for _name in ("fastapi", "uvicorn"):
    pytest.importorskip(_name, reason="needs the extra serve")

KEY = "0123456789abcdef-key"
PROMPT = "The rows of a matrix"
PARTIAL = "\N{REPLACEMENT CHARACTER}"
"""End of an answer within a character, which streams leave out."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sparse model with a chat template."""
    place = tmp_path_factory.mktemp("serve")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINA_HOME", str(place / "home"))
        return sparse_folder(str(tiny_folder(place / "tiny")), place / "sparse model", chat=True)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serving(folder, "--max-new-tokens", 400, WINA_API_KEY=KEY) as it:
        yield it


@pytest.fixture(scope="module")
def client(server: Server) -> Any:
    return openai.OpenAI(base_url=server.listening["address"], api_key=KEY, max_retries=0, timeout=300)


def complete(client: Any, **settings: Any) -> Any:
    return client.completions.create(**({"model": "sparse-model", "prompt": PROMPT, "max_tokens": 12} | settings))


def test_an_answer_is_what_the_folder_generates(folder: Path, client: Any) -> None:
    answer = complete(client)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(PROMPT, return_tensors="pt").input_ids
    with torch.no_grad():
        expected = model.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
    assert answer.choices[0].text == tokenizer.decode(expected, skip_special_tokens=True)
    assert (answer.model, answer.usage.completion_tokens) == ("sparse-model", len(expected))
    assert [each.id for each in client.models.list()] == ["sparse-model"]
    streamed = "".join(each.choices[0].text for each in complete(client, stream=True))
    assert streamed == answer.choices[0].text.rstrip(PARTIAL)
    with pytest.raises(openai.AuthenticationError, match="API key"):
        complete(client.with_options(api_key="wrong"))
    assert complete(client, prompt="a" * 500, max_tokens=100).usage.completion_tokens == 12, "the window ends there"
    with pytest.raises(openai.BadRequestError, match="the model reads 512"):
        complete(client, prompt="a" * 600)


def test_chats_stream_too(client: Any) -> None:
    asked = {"model": "sparse-model", "messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": 6}
    answer = client.chat.completions.create(**asked)
    pieces = [each.choices[0].delta.content or "" for each in client.chat.completions.create(**asked, stream=True)]
    assert "".join(pieces) == answer.choices[0].message.content.rstrip(PARTIAL)
    with pytest.raises(openai.BadRequestError, match="A tool cannot speak first"):
        client.chat.completions.create(**{**asked, "messages": [{"role": "tool", "content": "7", "tool_call_id": "a"}]})


def test_sampling_follows_its_seed(client: Any) -> None:
    texts = [complete(client, temperature=2.0, seed=seed).choices[0].text for seed in (1, 1, 2)]
    assert (texts[0] == texts[1], texts[0] == texts[2]) == (True, False)
    assert complete(client, temperature=1e-300).choices[0].text == complete(client).choices[0].text


def leave_within_a_request(address: str) -> None:
    place = urlsplit(address)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{{".encode())
        time.sleep(0.5)


@pytest.mark.nightly
def test_clients_that_leave_keep_nobody_out(client: Any, server: Server) -> None:
    def ask(number: int) -> str:
        match number % 4:
            case 0:
                return complete(client).object
            case 1:
                return list(complete(client, stream=True))[-1].object
            case 2:
                with complete(client, max_tokens=400, stream=True) as answer:
                    return next(iter(answer)).object
        return leave_within_a_request(server.listening["address"]) or "left"

    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(ask, range(80)))
    assert ends == ["text_completion", "text_completion", "text_completion", "left"] * 20
    assert complete(client).choices[0].text
    assert not list(server.errors)


@pytest.mark.nightly
def test_it_ends_as_by_sigterm_with_the_program_that_holds_its_stdin(client: Any, server: Server) -> None:
    texts: list[str] = []
    reasons: list[str] = []

    def listen() -> None:
        for each in complete(client, max_tokens=400, stream=True):
            texts.append(each.choices[0].text)
            reasons.append(each.choices[0].finish_reason)

    listening = threading.Thread(target=listen)
    listening.start()
    while not texts:
        time.sleep(0.01)
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(120) == 0
    listening.join(120)
    assert 0 < len(texts) < 400
    assert reasons[-1] == "length", "it is cut off"
    with pytest.raises(openai.APIConnectionError):
        complete(client)
