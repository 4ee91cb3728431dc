"""`wina rotate`: rotation of a model, its exactness, and its export."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli.arguments import options
from wina_core.cli.arguments.flags import taking
from wina_core.cli.asking import announce_memory
from wina_core.cli.places import announce_folder, output_location
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_pairs, print_table, quantization_pairs
from wina_core.engine.protocol import RotateJob
from wina_core.records import RotationReport
from wina_core.specs import MATRICES_FILE, ModelSource, RotationSpec
from wina_core.store import Store


@taking(model=options.model_source, rotation=partial(options.rotation_spec, mode="free"))
def rotate(
    model: ModelSource,
    rotation: RotationSpec,
    output_path: Annotated[
        Path | None, options.in_output(help=f"Export the rotated model to this new folder, with {MATRICES_FILE}.")
    ] = None,
    _machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Rotate a model without changing its function; print the logits' error and the remaining off-diagonal energy."""
    export_to = output_location(output_path, model) if output_path else None
    job = RotateJob(model=model, rotation=rotation, export_to=export_to)
    announce_memory(job)
    with Store(database) as store:
        report = run_recorded(job, store).value
    assert isinstance(report, RotationReport)
    if as_json:
        typer.echo(report.model_dump_json(indent=1))
        return
    print_pairs(
        {
            "rotation": rotation.label,
            "logits deviation": report.logits_deviation,
            "shortcut weights": report.shortcut_parameters,
            "norms folded in": ", ".join(report.folded) or "no projection",
            "seconds": report.seconds,
            "saved in": report.exported_to,
        }
    )
    if report.quantization is not None:
        print_pairs(quantization_pairs(report.quantization))
    rows = [(record.layer, record.projection, record.value) for record in report.residuals]
    if report.exported_to is not None:
        announce_folder(report.exported_to)
    print_table(("layer", "projection", "off-diagonal energy"), rows, as_json=False)
