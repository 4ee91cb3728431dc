"""Weights in few bits: what is packed comes back, and what cannot be packed is refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from wina_kernels.weights import STORED_BITS, MixedWeight, QuantizedWeight

SCALE = torch.ones(1, 5)


@given(bits=st.sampled_from(STORED_BITS), n=st.integers(1, 9), m=st.integers(1, 40), signed=st.booleans())
def test_codes_come_back(bits, n, m, signed):
    random = torch.Generator().manual_seed(m)
    low = -(1 << (bits - 1)) if signed else 0
    codes = torch.randint(low, low + (1 << bits), (n, m), generator=random)
    codes = codes.to(torch.int8 if signed else torch.uint8)
    scale, zero = torch.rand(n, m, generator=random), torch.randn(n, m, generator=random)
    weight = QuantizedWeight.of(codes, scale, zero, 1, bits)
    assert weight.shape == (n, m)
    torch.testing.assert_close(weight.dequantize(), (codes.float() - zero) * scale, atol=1e-4, rtol=1e-4)
    if signed or bits < 8:
        assert torch.equal(weight.unpacked(), codes)
    packed = sum(-(-m * plane // 8) for plane in {8: [8], 6: [4, 2], 4: [4], 3: [2, 1], 2: [2]}[bits])
    assert weight.bytes == n * packed + 2 * 4 * n * m


@pytest.mark.parametrize(
    ("codes", "bits", "says"),
    [
        (torch.zeros(1, 5, dtype=torch.uint8), 5, "Codes have 5 bits; the kernels store 8, 6, 4, 3, 2"),
        (torch.full((1, 5), 16, dtype=torch.uint8), 4, "Codes are 16 to 16; 4 bits hold 0 to 15"),
        (torch.full((1, 5), 4, dtype=torch.int8), 3, "Codes are 4 to 4; 3 bits hold -4 to 3"),
        (torch.zeros(1, 5), 4, "Codes are float32; give uint8 or int8"),
    ],
)
def test_codes_that_the_bits_do_not_hold_are_refused(codes, bits, says):
    with pytest.raises(ValueError, match=says):
        QuantizedWeight.of(codes, SCALE, None, 1, bits)


def test_runs_come_back_in_the_models_order():
    rows = torch.arange(12.0).view(4, 3)
    order = torch.tensor([2, 0, 3, 1], dtype=torch.int32)
    quantized = QuantizedWeight.of(rows[order[:2].long()].to(torch.uint8), torch.ones(1, 3), None, 2, 4)
    weight = MixedWeight([quantized, rows[order[2:].long()]], order)
    assert weight.shape == (4, 3)
    assert torch.equal(weight.dequantize(), rows)
    assert weight.bytes == 2 * 2 + 3 * 4 + 2 * 3 * 4 + 4 * 4


@pytest.mark.parametrize(
    ("runs", "order", "says"),
    [
        ([], None, "0 runs; it may have 1 to 4"),
        ([torch.zeros(2, 3), torch.zeros(2, 4)], None, r"\[2, 3\] on cpu, \[2, 4\] on cpu are no parts"),
        ([torch.zeros(2, 3)], torch.tensor([0, 0], dtype=torch.int32), "no permutation of the 2 inputs"),
        ([torch.zeros(2, 3)], torch.tensor([0, 1]), r"torch.int64 \[2\] on cpu; give int32 \[2\]"),
    ],
)
def test_runs_that_are_no_weight_are_refused(runs, order, says):
    with pytest.raises(ValueError, match=says):
        MixedWeight(runs, order)
