"""`wina gate`: the inputs of one matrix that each method keeps, token by token."""

import json
from typing import Annotated, Any

import numpy as np
import typer

from wina_core.analysis.gate_views import COMPARED, InspectedCell, InspectedGate, agreement
from wina_core.cli import makers, options
from wina_core.cli.makers import IN_MEMORY, confirm_and_run
from wina_core.cli.options import in_gate, with_flags_of
from wina_core.cli.tables import print_pairs, print_table
from wina_core.errors import WinaError
from wina_core.jobs import InspectGateJob
from wina_core.records.gates import GateRecord
from wina_core.specs import ModelSource, RotationSpec

_DEFAULT = ("teal", "wina")
_COLUMNS = ("method", "target", "kept per token", "kept", "kept energy", "output error", "boundary")


@with_flags_of(model=makers.model_source, rotation=makers.rotation_spec)
def gate(
    model: ModelSource,
    layer: Annotated[int, in_gate(help="Decoder layer, from 0.")],
    projection: Annotated[str, in_gate(help="Matrix: q, k, v, o, gate, up or down.")],
    prompt: Annotated[str, in_gate(help="Text whose tokens are inspected.")],
    rotation: RotationSpec,
    method: Annotated[
        list[str] | None, in_gate(help=f"Repeatable: {', '.join(COMPARED)}; {' and '.join(_DEFAULT)} by default.")
    ] = None,
    sparsity: Annotated[float, in_gate(help="Fraction of this matrix's weights to drop, [0, 1).")] = 0.5,
    selection: options.Select = "topk",
    tokens: Annotated[int, in_gate(help="Largest number of tokens, from the prompt's first.")] = 64,
    machine: options.Machines = None,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Compare which inputs of one matrix each method keeps on a prompt.

    Prints each method's threshold, the error of the matrix's output, and the agreement of the masks. The model runs
    dense, so all methods see the same inputs.
    """
    chosen = tuple(dict.fromkeys(method or _DEFAULT))
    if unknown := next((name for name in chosen if name not in COMPARED), None):
        raise WinaError(f'There is no method "{unknown}" to inspect; choose one of {", ".join(COMPARED)}.')
    methods = [COMPARED[name] for name in chosen]
    names = [spec.label for spec in methods]
    job = InspectGateJob.model_validate(
        {
            "model": model,
            "rotation": rotation,
            "layer": layer,
            "projection": projection,
            "prompt": prompt,
            "gates": [
                {"method": spec.model_copy(update={"selection": selection}), "target": sparsity} for spec in methods
            ],
            "tokens": tokens,
        }
    )
    record = confirm_and_run(job, GateRecord, machine, yes, IN_MEMORY)
    cell = InspectedCell(record)
    rows = [_row(name, inspected) for name, inspected in zip(names, cell.gates, strict=True)]
    alike, jaccard = agreement([inspected.mask for inspected in cell.gates])
    if as_json:
        content = {
            **record.model_dump(include={"layer", "projection"}),
            "inputs": cell.inputs.shape[1],
            **record.model_dump(include={"tokens", "prompt_tokens"}),
            "gates": [dict(zip(_COLUMNS, row, strict=True)) for row in rows],
            "alike": alike.tolist(),
            "jaccard": jaccard.tolist(),
        }
        typer.echo(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))
        return
    print_pairs(
        {
            "cell": f"layer {record.layer}, {record.projection}",
            "inputs": cell.inputs.shape[1],
            "tokens": f"{len(record.tokens)} of {record.prompt_tokens}",
        }
    )
    typer.echo("")
    print_table(_COLUMNS, rows, as_json=False)
    for title, table in (("mask agreement", alike), ("Jaccard index of kept inputs", jaccard)):
        typer.echo("")
        lines = [[name, *map(float, row)] for name, row in zip(names, table, strict=True)]
        print_table((title, *names), lines, as_json=False)


def _row(name: str, gate: InspectedGate) -> list[Any]:
    """Return means over the tokens, and the median of the boundaries (None where nothing is dropped)."""
    boundaries = gate.thresholds(gate.target, gate.mask)
    finite = boundaries[~np.isnan(boundaries)]
    return [
        name,
        gate.target,
        float(gate.mask.sum(axis=1).mean()),
        float(gate.mask.mean()),
        gate.decision.kept_energy,
        gate.decision.output_error,
        float(np.median(finite)) if finite.size else None,
    ]
