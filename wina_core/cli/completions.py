"""`wina completions`: stored completions of prompts."""

import json
from typing import Annotated, Any

import typer

from wina_core.cli.arguments import options
from wina_core.cli.generate import show_completions
from wina_core.cli.tables import print_pairs, print_table
from wina_core.jobs.completion import completion_of
from wina_core.records.completions import CompletionRecord, StoredCompletion
from wina_core.records.texts import moment
from wina_core.store import Store

COLUMNS = ("id", "time", "model", "configuration", "tokens", "tokens/s", "dense tokens/s", "speed-up", "KL", "prompt")
_PROMPT = 48
"""Characters of a prompt in the table."""

Id = Annotated[int, typer.Argument(metavar="ID", help="A number of `wina completions`.")]

app = typer.Typer(help="List, show and delete stored completions of prompts.", invoke_without_command=True)


@app.callback()
def list_completions(
    context: typer.Context,
    search: Annotated[
        str, typer.Option(help="Only those with all of these words in prompt, completion, configuration or model.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="Largest number of completions.")] = 50,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """List stored completions, the latest first."""
    if context.invoked_subcommand is not None:
        return
    with Store(database) as store:
        rows = store.completions(search, limit)
    table = [
        [
            *(row.id, moment(row.recorded), row.model, row.configuration, row.tokens),
            *(row.tokens_per_second, row.dense_tokens_per_second, row.speedup, row.divergence),
            row.prompt if as_json else _beginning(row.prompt),
        ]
        for row in rows
    ]
    print_table(COLUMNS, table, as_json)


@app.command()
def show(completion: Id, database: options.Database = None, as_json: options.Json = False) -> None:
    """Print a completion beside the dense one of its prompt; with --json all numbers of all tokens."""
    with Store(database) as store:
        found = store.completion(completion)
    if as_json:
        typer.echo(json.dumps(_plain(found), indent=1, ensure_ascii=False))
        return
    point, environment = found.record.point, found.record.environment
    sampling = point.sampling
    print_pairs(
        {
            "time": moment(found.recorded),
            "model": point.model.location,
            "environment": f"{environment.hardware}, {environment.device}" if environment else "unknown",
            "sampling": f"temperature {sampling.temperature:g}, top-p {sampling.top_p:g}, seed {sampling.seed}",
            "chat template": "applied" if point.chat else "not applied",
        }
    )
    typer.echo(f"\n{point.prompt}\n")
    show_completions([completion_of(each) for each in (found.dense, found.record) if each is not None], as_json=False)


@app.command()
def delete(
    completions: Annotated[list[int], typer.Argument(metavar="ID...", help="Numbers of `wina completions`.")],
    database: options.Database = None,
) -> None:
    """Erase completions, and dense ones that stood beside none but these."""
    with Store(database) as store:
        store.delete_completions(completions)
    typer.echo(f"{len(completions)} erased.", err=True)


def _beginning(prompt: str) -> str:
    words = " ".join(prompt.split())
    return words if len(words) <= _PROMPT else f"{words[: _PROMPT - 1]}\N{HORIZONTAL ELLIPSIS}"


def _plain(found: StoredCompletion) -> dict[str, Any]:
    def content(record: CompletionRecord) -> dict[str, Any]:
        speed = completion_of(record).speed
        numbers = {
            "tokens_per_second": speed.rate,
            "dense_tokens_per_second": speed.dense_rate,
            "speedup": speed.speedup,
            "mean_divergence": completion_of(record).divergence,
        }
        return {"text": completion_of(record).text, **numbers, **record.model_dump(mode="json")}

    dense = None if found.dense is None else content(found.dense)
    return {"id": found.id, "recorded": found.recorded, **content(found.record), "dense": dense}
