"""The units of processors, by the descriptions that Linux gives."""

import pytest

from wina_core.files.hardware import BF16_VARIABLE, bf16_in, has_bf16_units

ZEN_3 = "model name\t: AMD EPYC 7763\nflags\t\t: fpu sse2 fma avx2 sha_ni\n"
ZEN_4 = "model name\t: AMD EPYC 9654\nflags\t\t: fpu sse2 fma avx2 avx512f avx512_bf16\n"
SAPPHIRE_RAPIDS = "flags\t\t: avx2 amx_bf16 amx_tile\n"
NEOVERSE_N1 = "Features\t: fp asimd fphp asimdhp asimddp\n"
NEOVERSE_V1 = "Features\t: fp asimd fphp asimdhp i8mm bf16\n"


@pytest.mark.parametrize(
    ("description", "has_units"),
    [
        (ZEN_3, False),
        (ZEN_4, True),
        (SAPPHIRE_RAPIDS, True),
        (NEOVERSE_N1, False),
        (NEOVERSE_V1, True),
        ("hart : 0\nisa : rv64gc\n", None),
        ("", None),
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
