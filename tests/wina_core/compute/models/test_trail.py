"""Gradients a layer at a time: they equal those of the whole graph, in every family."""

import sys

import pytest
import torch

from tests.wina_core.tiny import KINDS, tiny_folder, tiny_loaded, tiny_tokens
from wina_core.compute.models.loading import load_model
from wina_core.compute.models.trail import differentiate_samples
from wina_core.compute.reporter import NullReporter
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.files.paths import cache_folder
from wina_core.specs import ModelSource

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
