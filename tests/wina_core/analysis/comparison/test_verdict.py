"""Verdicts on gating beyond the noise, against dense and a peer, and the batch up to which it pays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wina_core.analysis.comparison.worth import BatchLimit, Gain, Rival, Speed, batch_limit, gain, verdict

PAYS, LOSES, UNSURE = Gain(1.6, 1.5, 1.7), Gain(0.8, 0.7, 0.9), Gain(1.02, 0.95, 1.1)


def around(ratio, noise=0.01):
    return Gain(ratio, ratio * (1 - noise), ratio * (1 + noise))


speeds = st.tuples(st.floats(1, 1e3), st.floats(0.5, 1), st.floats(1, 2)).map(
    lambda drawn: Speed(drawn[0], drawn[0] * drawn[1], drawn[0] * drawn[2])
)


@given(speeds, speeds)
def test_a_gain_is_certain_only_where_the_ranges_of_both_speeds_are_apart(speed, reference):
    result = gain(speed, reference)
    assert result.low <= result.ratio <= result.high
    assert (result.status == "pays") == (speed.low > reference.high)
    assert (result.status == "does not pay") == (speed.high < reference.low)
    back = gain(reference, speed)
    assert back.ratio == pytest.approx(1 / result.ratio)
    assert {result.status, back.status} in ({"pays", "does not pay"}, {"within the noise"})


@pytest.mark.parametrize(
    ("gains", "limit", "text"),
    [
        ({1: PAYS}, BatchLimit(1, None, None), "at least 1"),
        ({1: PAYS, 2: PAYS, 8: PAYS}, BatchLimit(8, None, None), "at least 8"),
        ({1: LOSES, 2: PAYS}, BatchLimit(0, 1, 1.0), "none"),
        ({1: PAYS, 2: UNSURE, 4: PAYS}, BatchLimit(1, 2, None), "1 (within the noise at 2)"),
        ({1: UNSURE}, BatchLimit(0, 1, None), "none (within the noise at 1)"),
    ],
)
def test_every_smaller_batch_must_pay_too(gains, limit, text):
    assert batch_limit(gains) == limit
    assert limit.text == text


def test_without_a_single_sequence_no_limit_is_known():
    assert batch_limit({2: PAYS, 4: PAYS}) is None
    assert batch_limit({}) is None


def test_the_batch_of_equal_speed_is_interpolated_on_logarithmic_scales():
    limit = batch_limit({batch: around(2 * batch**-0.5) for batch in (1, 2, 3, 8)})  # equal at 4
    assert limit.most == 3
    assert limit.even == pytest.approx(4.0)
    assert limit.text == "3 (equal at about 4.0)"


@given(st.floats(1.05, 3), st.floats(0.3, 0.95), st.integers(1, 20), st.integers(1, 20))
def test_the_batch_of_equal_speed_lies_between_the_two_measured_ones(above, below, first, step):
    gains = {1: around(above), first: around(above), first + step: around(below)}
    limit = batch_limit(gains)
    assert limit.most == first
    assert first <= limit.even <= first + step


@pytest.mark.parametrize(
    ("dense", "peer", "text"),
    [
        (PAYS, None, "pays: 1.60 times (1.50 to 1.70) dense"),
        (LOSES, None, "does not pay: 0.80 times (0.70 to 0.90) dense"),
        (UNSURE, None, "within the noise: 1.02 times (0.95 to 1.10) dense"),
        (PAYS, PAYS, "pays: 1.60 times (1.50 to 1.70) dense; 1.60 times peer"),
        (PAYS, LOSES, "does not pay: 0.80 times (0.70 to 0.90) peer; 1.60 times dense"),
        (UNSURE, PAYS, "within the noise: 1.02 times (0.95 to 1.10) dense; 1.60 times peer"),
        (LOSES, UNSURE, "does not pay: 0.80 times (0.70 to 0.90) dense; 1.02 times peer"),
    ],
)
def test_the_worse_of_dense_and_peer_decides(dense, peer, text):
    judged = verdict(Rival("dense", dense), None if peer is None else Rival("peer", peer))
    assert (judged.status, judged.text) == (text.partition(":")[0], text)
