"""`wina cost`: operations and bytes of a generated token, from a config alone."""

from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli.arguments import options
from wina_core.cli.arguments.flags import taking
from wina_core.cli.arguments.options import in_gate, in_model, in_rotation
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_pairs, print_table
from wina_core.errors import WinaError
from wina_core.jobs import CostJob
from wina_core.records import CostRecord, CostRow
from wina_core.specs import ROTATION_MODES, MethodSpec, ModelSource, Quantization, QuantizationSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.store import Store

Modes = Annotated[
    list[str] | None,
    in_rotation(
        "--rotation", help=f"Repeatable: {', '.join(ROTATION_MODES)}; by default all that are exact for the model."
    ),
]


@taking(quantization=options.quantization_of, method=options.method_spec)
def cost(
    model: options.Model,
    method: MethodSpec,
    quantization: Quantization,
    sparsity: Annotated[float | None, in_gate(help="Fraction to drop, [0, 1); 0.65 by default.")] = None,
    plan: Annotated[
        Path | None, in_gate(help="A plan's JSON file, with bits or without, instead of --sparsity.")
    ] = None,
    rotation: Modes = None,
    fold_norms: options.FoldNorms = None,
    context: Annotated[int, in_model(help="Positions that the token attends to, itself included.")] = 2048,
    dtype: options.Dtype = "auto",
    _machine: options.Machines = None,
    as_json: options.Json = False,
) -> None:
    """Print operations and bytes per generated token for each rotation.

    They are counted twice: as in the paper, and with everything included. MODEL may be a folder with nothing but a
    config.json; no weights are read.
    """
    if plan is not None and sparsity is not None:
        raise WinaError("Give either --sparsity or --plan; a plan has the sparsity of every matrix.")
    tables, quantization = options.plans_of([plan] if plan else (), quantization)
    job = CostJob.model_validate(
        {
            "model": ModelSource(location=model, dtype=dtype, quantization=quantization),
            "method": method,
            "plan": tables[0] if tables else UniformSparsity(sparsity=0.65 if sparsity is None else sparsity),
            "context": context,
            "rotations": rotation or None,
            "fold_norms": fold_norms,
        }
    )
    with Store("sqlite://") as store:  # in memory: nothing of this job is stored
        record = run_recorded(job, store).value
    assert isinstance(record, CostRecord)
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
        return
    print_pairs(
        {
            "method": record.method,
            "target sparsity": record.target_sparsity,
            "context": record.context,
            "weights": f"{record.shape.dtype}, {record.quantization} quantization",
        }
    )
    typer.echo("")
    print_table(("per generated token", *(row.rotation for row in record.rows)), _lines(record.rows), as_json=False)
    if isinstance(quantization, QuantizationSpec) and quantization.quantizer == "planes":
        typer.echo("\nOf weights in planes, bits and bytes read are estimates for normal weights and scores.")
    for row in record.rows:
        if row.warning:
            typer.echo(f"\n{row.rotation}: {row.warning}")


def _lines(rows: tuple[CostRow, ...]) -> list[list[object]]:
    """Return a line for each quantity, then for each part of the net figures, with a value for every row."""
    lines: list[list[object]] = [
        ["gated sparsity, %", *(100 * row.gated_sparsity for row in rows)],
        ["net sparsity, %", *(100 * row.net_sparsity for row in rows)],
        ["GFLOPs as the paper counts", *(row.gated_flops / 1e9 for row in rows)],
        ["  saving, %", *(100 * row.gated_flops_saving for row in rows)],
        ["GFLOPs, everything counted", *(row.net_flops / 1e9 for row in rows)],
        ["  saving, %", *(100 * row.net_flops_saving for row in rows)],
        ["MB read as the paper counts", *(row.gated_bytes / 1e6 for row in rows)],
        ["  saving, %", *(100 * row.gated_bytes_saving for row in rows)],
        ["bits read of a gated weight", *(row.bits_read for row in rows)],
        ["bits held of a gated weight", *(row.bits_held for row in rows)],
        ["MB read, everything counted", *(row.net_bytes / 1e6 for row in rows)],
        ["  saving, %", *(100 * row.net_bytes_saving for row in rows)],
        ["MB held, KV cache included", *(row.bytes_held / 1e6 for row in rows)],
    ]
    parts = list(zip(*(row.terms for row in rows), strict=True))
    lines += [[f"GFLOPs in {part[0].name}", *(term.flops / 1e9 for term in part)] for part in parts]
    lines += [[f"MB in {part[0].name}", *(term.bytes / 1e6 for term in part)] for part in parts]
    return [line for line in lines if any(line[1:])]
