"""`wina rotate`: rotate a model, say how exact that was, and save the result."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli import options
from wina_core.cli.flags import taking
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_pairs, print_table, quantization_pairs
from wina_core.engine.protocol import RotateJob
from wina_core.records import RotationReport
from wina_core.specs import MATRICES_FILE, RotationSpec
from wina_core.store import Store


@taking(rotation=partial(options.rotation_spec, mode="free"))
def rotate(
    model: options.Model,
    rotation: RotationSpec,
    to: Annotated[Path | None, typer.Option(help=f"A new folder for the model, with {MATRICES_FILE}.")] = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    quantization: options.Quantization = "none",
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Rotate a model without changing what it computes, and measure the deviation and what is left off the diagonal."""
    source = options.model_source(model, dtype, device, quantization)
    export_to = str(to.absolute()) if to else None
    with Store(database) as store:
        report = run_recorded(RotateJob(model=source, rotation=rotation, export_to=export_to), store).value
    assert isinstance(report, RotationReport)
    if as_json:
        typer.echo(report.model_dump_json(indent=1))
        return
    print_pairs(
        {
            "rotation": rotation.label,
            "logits deviation": report.logits_deviation,
            "shortcut weights": report.shortcut_parameters,
            "seconds": report.seconds,
            "saved in": report.exported_to,
        }
    )
    if report.quantization is not None:
        print_pairs(quantization_pairs(report.quantization))
    rows = [(record.layer, record.projection, record.value) for record in report.residuals]
    print_table(("layer", "projection", "off-diagonal energy"), rows, as_json=False)
