"""Sizes of memory as users write them, and the limit that they set."""

import pytest

from wina_core.errors import WinaError
from wina_core.files import hardware
from wina_core.files.hardware import MEMORY_VARIABLE, free_memory, memory_limit, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GB", 8e9), ("8 gb", 8e9), ("7.5G", 7.5e9), ("8GiB", 8 * 2**30), ("500M", 5e8), ("1024", 1024), ("2T", 2e12)],
)
def test_sizes_have_decimal_or_binary_units(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "8 parsecs", "-1GB", "0", "1.2.3G", "8GBB"])
def test_other_texts_are_refused(text):
    with pytest.raises(WinaError, match=r"is no size of memory; give a number and a unit, such as 8GB\."):
        parse_bytes(text)


def test_the_limit_lowers_what_is_free(monkeypatch):
    monkeypatch.setattr(hardware, "machine_memory", lambda: (1e12, 2e12))
    assert memory_limit() is None
    assert free_memory() == 1e12
    monkeypatch.setenv(MEMORY_VARIABLE, "100GB")
    assert 90e9 < free_memory() < 100e9, "this process takes some of it"
    monkeypatch.setenv(MEMORY_VARIABLE, "1KB")
    assert free_memory() == 0
