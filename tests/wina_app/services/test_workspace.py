"""Quantization of the open model in the state that the pages share."""

import pytest
from wina_app.services.workspace import Workspace

from tests.wina_app.stored_runs import GLOBAL, SOURCE, layout, summary
from wina_core.errors import WinaError
from wina_core.records import QuantizationReport, RotationReport
from wina_core.specs import BitsPlan, QuantizationSpec

FOUR = QuantizationSpec(quantizer="rtn", bits=4)


@pytest.fixture
def workspace(qapp) -> Workspace:  # noqa: ARG001 - signals need an application
    opened = Workspace()
    opened.set_model(SOURCE, summary())
    return opened


def test_bits_need_a_model_that_they_fit(workspace, qtbot):
    nothing = Workspace()
    nothing.set_quantization(FOUR)
    assert (nothing.source, nothing.quantization) == (None, "none")
    other = QuantizationSpec(quantizer="rtn", bits=BitsPlan.uniform(layout(4), 4))
    with qtbot.assertNotEmitted(workspace.quantization_changed), pytest.raises(WinaError, match="4 layers"):
        workspace.set_quantization(other)
    assert workspace.source == SOURCE


def test_other_bits_keep_the_measured_rotation_but_not_what_quantizing_it_did(workspace):
    effect = QuantizationReport(quantization="int8", logits_deviation=0.1, kl=0.01, seconds=1.0)
    report = RotationReport(
        rotation="r", logits_deviation=1e-6, residuals=(), shortcut_parameters=0, seconds=1.0, quantization=effect
    )
    workspace.set_rotation(GLOBAL, report)
    workspace.set_quantization(FOUR)
    assert workspace.rotation_report == report.model_copy(update={"quantization": None})
