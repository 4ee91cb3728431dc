"""Units of processors by the descriptions that Linux gives, sizes of memory as users write them, and their limit."""

import pytest

from wina_core.errors import WinaError
from wina_core.files import hardware
from wina_core.files.hardware import (
    BF16_VARIABLE,
    MEMORY_VARIABLE,
    bf16_in,
    free_memory,
    has_bf16_units,
    memory_limit,
    parse_bytes,
)

ZEN_3 = "model name\t: AMD EPYC 7763\nflags\t\t: fpu sse2 fma avx2 sha_ni\n"
ZEN_4 = "model name\t: AMD EPYC 9654\nflags\t\t: fpu sse2 fma avx2 avx512f avx512_bf16\n"
NEOVERSE_V1 = "Features\t: fp asimd fphp asimdhp i8mm bf16\n"


@pytest.mark.parametrize(
    ("description", "has_units"),
    [
        (ZEN_3, False),
        (ZEN_4, True),
        (NEOVERSE_V1, True),
        ("hart : 0\nisa : rv64gc\n", None),
    ],
)
def test_units_for_bfloat16_are_read_off_the_flags(description: str, has_units: bool | None):
    assert bf16_in(description) is has_units


@pytest.mark.parametrize(("named", "has_units"), [("yes", True), ("no", False)])
def test_the_environment_goes_before_the_system(monkeypatch: pytest.MonkeyPatch, named: str, has_units: bool):
    monkeypatch.setenv(BF16_VARIABLE, named)
    has_bf16_units.cache_clear()
    assert has_bf16_units() is has_units
    has_bf16_units.cache_clear()


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
