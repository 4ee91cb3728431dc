"""Generations of the server."""

import pytest

for _name in ("fastapi", "uvicorn", "openai"):
    pytest.importorskip(_name, reason="needs the extra serve")

from wina_core.compute.serving.server import _Logged  # noqa: E402


class Failing:
    def generate(self, **_: object) -> None:
        raise ValueError('a "detail" of the machine')


def test_the_error_of_a_stream_is_in_the_log_and_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError, match="its log has the details"):
        _Logged(Failing()).generate()
    assert "of the machine" in caplog.text
