"""Statistics of a completion's passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wina_core.records.completions import LEAST_TOKENS, CompletionToken, decoding_speed, prefill, rate_text

SECONDS = st.floats(1e-5, 1e3)


def tokens(passes: list[tuple[float, float | None]], read: int = 7) -> list[CompletionToken]:
    return [
        CompletionToken(
            id=0, text="", log_probability=-1.0, read=1 if number else read, seconds=seconds, dense_seconds=dense
        )
        for number, (seconds, dense) in enumerate(passes)
    ]


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=LEAST_TOKENS, max_size=40))
def test_the_speed_up_is_what_a_reader_gets_by_dividing_the_shown_rates(passes: list[tuple[float, float]]) -> None:
    speed = decoding_speed(tokens(list(passes)))
    assert speed.rate
    assert speed.dense_rate
    assert speed.speedup
    gated, dense = (float(rate_text(rate).replace(",", "")) for rate in (speed.rate, speed.dense_rate))
    assert f"{speed.speedup:.2f}" == f"{gated / dense:.2f}"


def test_no_speed_up_is_stated_from_few_tokens_and_none_of_the_dense_completion() -> None:
    few = tokens([(0.01, 0.02)] * (LEAST_TOKENS - 1))
    assert decoding_speed(few) == (100.0, 50.0, None)
    assert decoding_speed([*few, few[-1]]) == (100.0, 50.0, 2.0)
    assert decoding_speed(tokens([(0.01, None)] * 20)) == (100.0, None, None)
    assert decoding_speed(few[:1]) == (None, None, None)


def test_the_prompt_counts_for_the_first_token_alone() -> None:
    slow = tokens([(9.0, 9.0), *[(0.01, 0.03)] * 20])
    assert prefill(slow) == (7, 9.0)
    assert decoding_speed(slow).rate == 100.0
    resumed = [CompletionToken(id=0, text="a", log_probability=None, read=0, seconds=0.0), *slow]
    assert prefill(resumed) is None
    assert decoding_speed(resumed).speedup == pytest.approx(3.0, abs=0.01)


@pytest.mark.parametrize(
    ("rate", "text"), [(0.01234, "0.01234"), (9.5, "9.500"), (99.96, "99.96"), (1234.0, "1,234"), (56780.0, "56,780")]
)
def test_a_rate_is_shown_with_all_of_its_digits(rate: float, text: str) -> None:
    assert rate_text(rate) == text
