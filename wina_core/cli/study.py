"""`wina study`: computing a declarative grid of runs, as far as it is not stored yet."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli import options
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import pivot, print_table
from wina_core.engine.protocol import EvaluateJob, PendingRun, RunFailed
from wina_core.errors import WinaError
from wina_core.store import MetricFilter, Store
from wina_core.study import expand, load_study
from wina_core.study_specs import StudySpec

app = typer.Typer(help="Compute studies.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Compute studies."""


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="A study in TOML or JSON.")],
    again: options.Again = False,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Compute what the store does not have yet of a study's runs, and print its table."""
    run_study(load_study(file), again, database, as_json)


def run_study(study: StudySpec, again: bool, database: str | None, as_json: bool) -> None:
    """Compute a study's missing units and print the table of all of it; WinaError if there is none or a run failed."""
    if not study.evaluation.units:
        raise WinaError("Nothing would be measured; name tasks, or compare with the dense model's logits (deviation).")
    with Store(database) as store:
        computed = compute(study, again, store)
        print_table(*pivot(store.metric_rows(MetricFilter(study=computed.study))), as_json)
    computed.check()


@dataclass(frozen=True)
class Computed:
    """A study as far as it could be computed."""

    study: str
    """Its hash in the store."""
    runs: int
    failures: tuple[RunFailed, ...]

    def check(self) -> None:
        """Raise WinaError with each distinct reason once, if any run failed."""
        if self.failures:
            reasons = " ".join(dict.fromkeys(failure.error for failure in self.failures))
            raise WinaError(f"{len(self.failures)} of {self.runs} runs failed: {reasons}")


def compute(study: StudySpec, again: bool, store: Store) -> Computed:
    """Compute a study's missing units, or `again` all, and store them."""
    runs = expand(study)
    name = store.save_study(study, runs)
    wanted = {spec: spec.evaluation.units if again else store.missing_units(spec) for spec in runs}
    pending = tuple(PendingRun(spec=spec, units=units) for spec, units in wanted.items() if units)
    missing, total = sum(len(run.units) for run in pending), sum(len(spec.evaluation.units) for spec in runs)
    typer.echo(f"{study.name}: {missing} of {total} measurements to compute.", err=True)
    return Computed(name, len(runs), run_recorded(EvaluateJob(runs=pending), store).failures if pending else ())
