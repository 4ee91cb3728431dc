"""What installed packages add to the pages' choices."""

import pytest
from wina_app.pages.evaluate.configurations_panel import ConfigurationsPanel

from tests.plugin_package import install_template, offer
from tests.wina_app.pages.sparsity.sparsity_pages import open_page
from tests.wina_app.stored_runs import SOURCE, summary
from wina_core.specs import AllocatorSpec, MethodSpec, QuantizationSpec
from wina_core.specs.allocations import ALLOCATOR_PLUGINS
from wina_core.specs.methods import METHOD_PLUGINS
from wina_core.specs.quantization import QUANTIZER_PLUGINS


@pytest.fixture
def installed(tmp_path, monkeypatch):
    install_template(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    offer(monkeypatch, METHOD_PLUGINS, mean_norm="wina_example.method:MeanNorm", absent="no_such_module:Method")
    offer(monkeypatch, ALLOCATOR_PLUGINS, later="wina_example.allocator:later_layers")
    offer(monkeypatch, QUANTIZER_PLUGINS, extremes="wina_example.quantizer:quantize")


@pytest.mark.usefixtures("installed")
def test_the_pages_offer_what_packages_add_and_leave_out_what_is_broken(qtbot, qapp, store, caplog):
    page = open_page(qtbot, qapp, store)
    page.workspace.set_model(SOURCE, summary())
    methods = [page.toolbar.method.itemText(row) for row in range(page.toolbar.method.count())]
    assert methods[-1] == "mean_norm"
    assert 'The method "absent" of an unknown package is left out' in caplog.text
    allocators = [page.toolbar.allocator.itemData(row) for row in range(page.toolbar.allocator.count())]
    assert AllocatorSpec(name="later") in allocators
    page.toolbar.map_chosen.emit("bits")
    box = page.quantization.quantizer
    box.setCurrentIndex(box.findData("extremes"))
    page.toolbar.bits_chosen.emit(4)
    assert page.workspace.quantization == QuantizationSpec(quantizer="extremes")
    panel = ConfigurationsPanel({})
    qtbot.addWidget(panel)
    assert MethodSpec(name="mean_norm") in panel.methods.values()
    assert AllocatorSpec(name="later") in [spec for spec, _ in panel.allocators.values()]
