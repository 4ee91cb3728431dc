"""`wina rotate`: rotation of a model, its exactness, and its export."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli.arguments import options
from wina_core.cli.arguments.flags import taking
from wina_core.cli.asking import announce_memory
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_pairs, print_table, quantization_pairs
from wina_core.jobs import RotateJob
from wina_core.records import RotationChoice, RotationReport, SiteSpectrum
from wina_core.records.rotations import explain_spectra
from wina_core.specs import MATRICES_FILE, ModelSource, RotationSpec
from wina_core.store import Store


@taking(model=options.model_source, rotation=partial(options.rotation_spec, mode="auto"))
def rotate(
    model: ModelSource,
    rotation: RotationSpec,
    output_path: Annotated[
        Path | None, options.in_output(help=f"Export the rotated model to this new folder, with {MATRICES_FILE}.")
    ] = None,
    spectra: Annotated[
        bool, options.in_rotation("--spectra", help="Also measure how many directions hold each input's energy.")
    ] = False,
    _data_folder: options.TextFolder = None,
    _machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Rotate a model without changing its function; print the KL divergence of its gates before and after, the logits'
    error and the remaining off-diagonal energy."""
    export_to = str(output_path.absolute()) if output_path else None
    job = RotateJob(model=model, rotation=rotation, spectra=spectra, export_to=export_to)
    announce_memory(job)
    with Store(database) as store:
        report = run_recorded(job, store).value
    assert isinstance(report, RotationReport)
    if as_json:
        content = report.model_dump(mode="json")
        content["verdict"] = None if report.choice is None else report.choice.verdict
        typer.echo(json.dumps(content, indent=1))
        return
    if report.choice is not None:
        _print_choice(report.choice)
    if report.spectra:
        _print_spectra(report.spectra)
    print_pairs(
        {
            "rotation": rotation.label if report.choice is None else report.choice.rotation.label,
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
    print_table(("layer", "projection", "off-diagonal energy"), rows, as_json=False)


def _print_choice(choice: RotationChoice) -> None:
    """Print the verdict, and the candidates' KL divergences."""
    typer.echo(choice.verdict)
    rows = [
        (
            "*" if place == choice.chosen else "",
            each.name,
            f"{each.kl:.3g} ± {each.stderr:.2g}",
            each.change_text if place else "",
            each.own_change_text if place else "",
            f"{each.seconds:.1f}",
        )
        for place, each in enumerate(choice.candidates)
    ]
    head = "", "rotation", f"KL at {100 * choice.sparsity:.4g} %", "change", "on sampled text", "seconds"
    print_table(head, rows, as_json=False)


def _print_spectra(spectra: tuple[SiteSpectrum, ...]) -> None:
    """Print how many directions hold half and 90 % of the energy of each input, and what that means."""
    typer.echo(explain_spectra(spectra))
    rows = [(each.layer, each.site, each.size, f"{100 * each.first:.0f} %", each.half, each.ninety) for each in spectra]
    print_table(("layer", "input", "directions", "in the first", "for 50 %", "for 90 %"), rows, as_json=False)
