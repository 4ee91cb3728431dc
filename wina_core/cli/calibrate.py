"""`wina calibrate`: score thresholds and error curves."""

from wina_core.cli import options
from wina_core.cli.flags import taking
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_table
from wina_core.engine.protocol import CalibrateJob
from wina_core.records import CalibrationRecord
from wina_core.specs import CalibrationSpec, MethodSpec, RotationSpec, TextSpec
from wina_core.store import Store


@taking(method=options.method_spec, rotation=options.rotation_spec)
def calibrate(
    model: options.Model,
    method: MethodSpec,
    rotation: RotationSpec,
    text: options.Text = options.CALIBRATION_TEXT.source,
    tokens: options.Tokens = options.CALIBRATION_TEXT.tokens,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    quantization: options.Quantization = "none",
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Measure thresholds and output errors per layer and projection over a range of sparsities; keep them for runs."""
    job = CalibrateJob(
        model=options.model_source(model, dtype, device, quantization),
        rotation=rotation,
        method=method,
        calibration=CalibrationSpec(text=TextSpec(source=text, tokens=tokens)),
    )
    with Store(database) as store:
        record = run_recorded(job, store).value
    assert isinstance(record, CalibrationRecord)
    rows = [(layer.layer, layer.projection, layer.metric, layer.x, layer.value) for layer in record.layers]
    print_table(("layer", "projection", "metric", "sparsity", "value"), rows, as_json)
