"""`wina calibrate`: score thresholds and error curves."""

from collections.abc import Sequence
from typing import Any

import typer

from wina_core.cli.arguments import options
from wina_core.cli.arguments.data_folder import chosen_data_folder
from wina_core.cli.arguments.flags import taking
from wina_core.cli.asking import announce_products
from wina_core.cli.experts import CALIBRATED, calibrated_experts
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_table
from wina_core.jobs import CalibrateJob
from wina_core.model_info.resolve import resolve_text
from wina_core.records import LEAST_EXPERT_TOKENS, CalibrationRecord
from wina_core.specs import CalibrationSpec, MethodSpec, ModelSource, RotationSpec, TextSpec
from wina_core.store import Store


@taking(model=options.model_source, method=options.method_spec, rotation=options.rotation_spec)
def calibrate(
    model: ModelSource,
    method: MethodSpec,
    rotation: RotationSpec,
    text: options.Text = options.CALIBRATION_TEXT.source,
    tokens: options.Tokens = options.CALIBRATION_TEXT.tokens,
    _data_folder: options.TextFolder = None,
    _yes: options.Yes = False,
    _machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Measure and store score thresholds and output errors per layer, projection and sparsity."""
    read = resolve_text(TextSpec(source=text, tokens=tokens), chosen_data_folder())
    job = CalibrateJob(model=model, rotation=rotation, method=method, calibration=CalibrationSpec(text=read))
    announce_products(job)
    with Store(database) as store:
        record = run_recorded(job, store).value
    assert isinstance(record, CalibrationRecord)
    rows: list[Sequence[Any]] = [
        (layer.layer, layer.projection, layer.metric, layer.x, layer.value) for layer in record.layers
    ]
    experts = calibrated_experts(record)
    if as_json:
        rows += [
            (layer, None, metric, None, value)
            for layer, *numbers in experts
            for metric, value in zip(CALIBRATED.values(), numbers, strict=True)
        ]
    print_table(("layer", "projection", "metric", "sparsity", "value"), rows, as_json)
    if experts and not as_json:
        typer.echo(
            f"\nExperts that read at least {LEAST_EXPERT_TOKENS} of the {record.tokens:,} tokens have thresholds of "
            "their own, the others their layer's:"
        )
        print_table(("layer", *CALIBRATED), experts, as_json=False)
