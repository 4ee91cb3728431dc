"""Decoding by steps that a CUDA graph can replay gives the tokens that transformers' own loop gives."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.wina_core.compute.generation import PROMPT, generated
from tests.wina_core.tiny import FEW_KINDS, tiny_loaded
from wina_core.compute.latency.graphs import GraphDecoder
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.plans import UniformSparsity

METHOD, HALF = MethodSpec(name="wina", masks="shared"), UniformSparsity(sparsity=0.5)
NEW = 12


def decoded(decoder: GraphDecoder) -> list[int]:
    return [int(token) for token in decoder.tokens(PROMPT, NEW)]


@pytest.mark.parametrize("family", FEW_KINDS)
def test_every_family_decodes_the_tokens_of_generate(family: str) -> None:
    loaded = tiny_loaded(family, seed=1)
    expected = generated(loaded, NEW)
    assert len(set(expected)) > 1, "or nothing is shown"
    decoder = GraphDecoder(loaded.model, PROMPT.shape[1] + NEW)
    assert decoded(decoder) == expected
    assert decoded(decoder) == expected, "a decoder starts anew"


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_step_that_was_recorded_once_gives_every_further_token(family: str) -> None:
    """Recorded operation by operation, as a graph on a GPU is: no number of a step may come from Python."""
    loaded = tiny_loaded(family, seed=1)
    expected = generated(loaded, NEW)
    decoder = GraphDecoder(loaded.model, PROMPT.shape[1] + NEW)
    steps = decoder.tokens(PROMPT, NEW)
    tokens = [int(next(steps)), int(next(steps))]
    with torch.no_grad():
        recorded = make_fx(lambda: decoder._read(decoder._token))()  # computes, as a capture does not
        tokens.append(int(decoder._token))
        while len(tokens) < NEW:
            recorded()
            tokens.append(int(decoder._token))
    assert tokens == expected


def test_more_than_the_cache_holds_is_refused() -> None:
    decoder = GraphDecoder(tiny_loaded("llama").model, 20)
    assert len(list(decoder.tokens(PROMPT, 9))) == 9
    with pytest.raises(WinaError, match="12 tokens and 10 new ones do not fit into a cache of 20"):
        next(decoder.tokens(PROMPT, 10))


def test_weights_that_were_moved_since_are_refused() -> None:
    """A captured graph would read memory that is free."""
    loaded = tiny_loaded("llama", layers=1)
    decoder = GraphDecoder(loaded.model, 20)
    next(decoder.tokens(PROMPT, 2))
    weight = loaded.view.layers[0].projections["q"].linear.weight
    weight.data = weight.data.clone()
    with pytest.raises(RuntimeError, match="weights have been moved; make a new decoder"):
        next(decoder.tokens(PROMPT, 2))
