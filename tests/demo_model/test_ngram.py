"""The baseline is a proper language model, and a useful one."""

import itertools

import numpy as np
import pytest
from demo_model.ngram import NGram, encode


@pytest.fixture(scope="module")
def text() -> np.ndarray:
    """A first-order chain over five symbols, strongly peaked."""
    random = np.random.default_rng(0)
    symbols = [0]
    for _ in range(3000):
        symbols.append((symbols[-1] + 1) % 5 if random.random() < 0.8 else int(random.integers(5)))
    return np.array(symbols)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_sum_to_one_after_seen_and_unseen_contexts(text: np.ndarray, order: int) -> None:
    model = NGram.fit(text[:200], 5, order)
    contexts = list(itertools.product(range(5), repeat=order - 1))[:300]
    for context in contexts:
        sequences = [encode(np.array([*context, symbol]), 5, order)[-1] for symbol in range(5)]
        probabilities = model.probability(np.array(sequences))
        assert (probabilities > 0).all()
        assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)


def test_beats_uniform_and_lower_orders_on_fresh_text(text: np.ndarray) -> None:
    train, fresh = text[:2000], text[2000:]
    uniform = len(fresh) * np.log2(5)
    unigram = NGram.fit(train, 5, 1).bits(fresh)
    bigram = NGram.fit(train, 5, 2).bits(fresh)
    assert bigram < 0.7 * unigram
    assert unigram < 1.01 * uniform
