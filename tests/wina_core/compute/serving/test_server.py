"""Connections that send no request are closed."""

import asyncio
import socket
from contextlib import nullcontext
from typing import Any, cast

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="needs the extra serve")
for _name in ("fastapi", "openai"):
    pytest.importorskip(_name, reason="needs the extra serve")

from wina_core.compute.serving import server  # noqa: E402
from wina_core.compute.serving.gatekeeper import Gatekeeper, Limits  # noqa: E402


async def answer(_scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await asyncio.sleep(1.5)  # longer than a connection may be idle
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_a_connection_has_a_limited_time_for_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 1.0)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(answer, log_config=None, http="h11", ws="none", lifespan="off")

    async def work() -> None:
        ready = asyncio.Event()
        whole, slow = (socket.create_connection(listening.getsockname()) for _ in range(2))
        whole.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")  # it is there when its time begins
        slow.sendall(b"GET / HTTP/1.1\r\nHost:")
        serving = server._Server(config, cast(Gatekeeper, None), Limits(), ready.set)
        monkeypatch.setattr(serving, "capture_signals", nullcontext)
        running = asyncio.ensure_future(serving.serve([listening]))
        await ready.wait()
        refused, slow_end = await asyncio.open_connection(sock=slow)
        answered, whole_end = await asyncio.open_connection(sock=whole)
        assert await refused.read() == b""
        assert (await answered.readline()).startswith(b"HTTP/1.1 204")
        await answered.read()  # it is idle again, and closed
        for writer in (slow_end, whole_end):
            writer.close()
        running.cancel()

    asyncio.run(asyncio.wait_for(work(), 120))
