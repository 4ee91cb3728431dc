"""Passes a layer at a time: they equal a model's own calls bit for bit, in every family."""

import sys
from contextlib import ExitStack

import pytest
import torch
from torch import nn

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import FEW_KINDS, KINDS, tiny_folder, tiny_loaded, tiny_tokens
from wina_core.compute.gating import Gates, attach
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.passage import Passage
from wina_core.compute.models.trail import differentiate_samples
from wina_core.compute.reporter import NullReporter
from wina_core.compute.stages import Stages
from wina_core.errors import WinaError
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.files.paths import cache_folder
from wina_core.specs import MethodSpec, ModelSource
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


def test_a_disk_without_room_for_a_checkpoint_loses_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    reporter = RecordingReporter()
    stages = Stages(reporter, tmp_path / "kept")
    stages.write("first", {"x": torch.ones(3)})
    stages.write("second", {"x": torch.ones(3)})
    (line,) = reporter.lines
    assert "This could not continue from here if it ended now: With what stays free, a checkpoint takes 1.0 GB" in line
    stages.discard()
    assert not (tmp_path / "kept").exists()


# ---- gradients a layer at a time equal those of the whole graph, in every family -------------------------------------


ROWS = tiny_tokens(3, 24)


def gradients(view, *, by_layer=None, tokens=ROWS):
    """Gradients of what queries, attention and layers give, by layer, row after row."""
    by_matrix = {}

    def hooks():
        for layer in view.layers:
            modules = {name: layer.projections[name].linear for name in ("q", "o")} | {"layer": layer.module}
            for name, module in modules.items():
                matrix_gradients = by_matrix.setdefault((layer.index, name), [])

                def watch(_module, _args, output, matrix_gradients=matrix_gradients):
                    output.register_hook(matrix_gradients.append)

                yield module.register_forward_hook(watch)

    passed = []
    differentiate_samples(
        view, tokens, hooks(), NullReporter(), lambda layer: passed.append(layer.index), by_layer=by_layer
    )
    assert passed == [layer.index for layer in reversed(view.layers)]
    return {matrix: torch.cat(matrix_gradients) for matrix, matrix_gradients in by_matrix.items()}


def equal(a, b):
    return a.keys() == b.keys() and all(a[key].equal(b[key]) for key in a)


@pytest.mark.parametrize("family", KINDS)
def test_gradients_a_layer_at_a_time_are_those_of_the_whole_graph(family):
    view = tiny_loaded(family).view
    whole = gradients(view, by_layer=False)
    assert all(gradient.abs().max() > 0 for gradient in whole.values())
    assert equal(gradients(view, by_layer=True), whole)


def test_each_layer_is_called_once_forward_and_once_back_for_each_row():
    view = tiny_loaded().view
    called = []
    for layer in view.layers:
        layer.module.register_forward_hook(lambda *_, index=layer.index: called.append(index))
    gradients(view, by_layer=True)
    assert [index for index in called if called.count(index) > 1][-9:] == [2] * 3 + [1] * 3 + [0] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux alone")
def test_a_model_in_files_passes_by_layer_with_states_in_a_file(tmp_path, monkeypatch):
    folder = str(tiny_folder(tmp_path / "model"))
    whole = gradients(load_model(ModelSource(location=folder), NullReporter()).view)
    monkeypatch.setenv(MEMORY_VARIABLE, "50K")
    view = load_model(ModelSource(location=folder), NullReporter()).view
    assert view.mapped is not None
    released = []
    monkeypatch.setattr(type(view.mapped), "give_back", lambda _, *modules: released.append(modules))
    assert equal(gradients(view), whole)
    order = [layer.index for modules in released for layer in view.layers if layer.module in modules]
    assert order == [0, 1, 2, 2, 1, 0], "each layer's memory is given back twice"
    assert not any(path.is_file() for path in cache_folder().iterdir())
