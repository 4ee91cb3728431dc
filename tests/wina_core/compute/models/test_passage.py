"""Passes a layer at a time: they equal a model's own calls bit for bit, in every family."""

from contextlib import ExitStack

import pytest
import torch
from torch import nn

from tests.wina_core.tiny import FEW_KINDS, tiny_loaded, tiny_tokens
from wina_core.compute.gating import Gates, attach
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.passage import Passage
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.files.paths import cache_folder
from wina_core.specs import MethodSpec
from wina_core.specs.plans import UniformSparsity

BATCHES = (tiny_tokens(2, 24), tiny_tokens(1, 24, seed=8), tiny_tokens(2, 10, seed=9))


@torch.no_grad()
def logits(loaded: LoadedModel) -> list[torch.Tensor]:
    return [loaded.model(batch, use_cache=False).logits for batch in BATCHES]


def gates_at(loaded: LoadedModel, sparsity: float) -> Gates:
    return attach(loaded, MethodSpec(name="wina"), UniformSparsity(sparsity=sparsity), dense_prefix=0.25)


def counts(gates: Gates) -> list[tuple[int, int]]:
    return [group.counted() for forward in gates.forwards for group in forward.groups]


def passed(passage: Passage) -> None:
    passage.run(NullReporter())


@pytest.mark.parametrize("family", FEW_KINDS)
def test_lanes_that_pass_together_equal_calls_one_after_the_other(family):
    loaded = tiny_loaded(family)
    expected, expected_counts = [logits(loaded)], []
    for sparsity in (0.4, 0.7):
        with gates_at(loaded, sparsity) as gates:
            expected.append(logits(loaded))
            expected_counts.append(counts(gates))
    with ExitStack() as stack:
        lanes = []
        for sparsity in (0.4, 0.7):
            lanes.append(stack.enter_context(gates_at(loaded, sparsity)))
            stack.enter_context(lanes[-1].removed())
        passage = Passage(loaded.view, BATCHES, [None, *lanes])
        passed(passage)
        assert [counts(gates) for gates in lanes] == expected_counts
    for lane, lane_expected in enumerate(expected):
        with passage.arriving(lane):
            assert all(map(torch.equal, logits(loaded), lane_expected))
    assert all(map(torch.equal, logits(loaded), expected[0])), "nothing is left of the lanes"


def test_each_layer_is_called_once_for_each_batch_and_lane_before_the_next():
    loaded = tiny_loaded()
    called = []
    for layer in loaded.view.layers:
        layer.module.register_forward_hook(lambda *_, index=layer.index: called.append(index))
    passage = Passage(loaded.view, BATCHES[:2], [None, None])
    called.clear()  # of the way into the first layer
    passed(passage)
    assert called == [0] * 4 + [1] * 4 + [2] * 4


def test_a_layer_may_change_once_it_was_passed():
    loaded = tiny_loaded()
    expected = logits(loaded)
    passage = Passage(loaded.view, BATCHES)
    with torch.no_grad():
        for layer in passage.layers(NullReporter()):
            for parameter in layer.module.parameters():
                parameter.fill_(torch.nan)
    with passage.arriving():
        assert all(map(torch.equal, logits(loaded), expected))


def test_a_number_that_is_not_finite_is_traced_to_its_layer():
    loaded = tiny_loaded()
    loaded.view.layers[1].projections["up"].weight[0, 0] = torch.inf
    passage = Passage(loaded.view, BATCHES)
    with pytest.raises(WinaError, match="not numbers on a text from decoder layer 1 on;"):
        list(passage.layers(NullReporter(), where="on a text"))


def test_calls_on_other_batches_are_refused():
    loaded = tiny_loaded()
    passage = Passage(loaded.view, BATCHES[:1])
    passed(passage)
    with passage.arriving(), pytest.raises(KeyError):
        loaded.model(tiny_tokens(1, 5))
    assert not any("forward" in vars(module) for module in loaded.model.modules() if isinstance(module, nn.Module))


def test_states_that_memory_does_not_hold_are_in_a_file_without_a_name(monkeypatch):
    loaded = tiny_loaded()
    expected = logits(loaded)
    monkeypatch.setenv(MEMORY_VARIABLE, "1K")
    passage = Passage(loaded.view, BATCHES, [None, None])
    passed(passage)
    assert not any(path.is_file() for path in cache_folder().iterdir())
    for lane in (0, 1):
        with passage.arriving(lane):
            assert all(map(torch.equal, logits(loaded), expected))


def test_a_disk_without_room_for_the_states_is_named(monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "1K")
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(WinaError, match=r"hidden states take 0\.0 GB, but .* has 0\.0 GB left; free some space"):
        Passage(tiny_loaded().view, BATCHES)
