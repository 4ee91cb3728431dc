"""`wina compare`: whether one stored run is better than another, with the evidence."""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from wina_core.analysis.comparison.compare_runs import RunComparisonResult, compare_pairs
from wina_core.analysis.comparison.compare_tasks import INTERVALS
from wina_core.analysis.comparison.study_runs import (
    StudyRun,
    comparable,
    pair_flag,
    shared_study,
    stored_run,
    study_runs,
    usual_baseline,
)
from wina_core.analysis.results.measured import DEFAULT_COUNT, TOLERANCE, SparsityKind, count_of, measured_sparsity
from wina_core.api.stored import named_runs, study_hash
from wina_core.cli import options
from wina_core.cli.results import LISTED
from wina_core.cli.tables import print_table
from wina_core.errors import WinaError
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.store.reader import Reader
from wina_core.studies.published import base_metric

COLUMNS = (
    "task", "metric", "first", "second", "difference", "low", "high", "p", "smallest p", "n",
    "first only", "second only", "test",
)  # fmt: skip
FLAG = "flag"


class _Pair(NamedTuple):
    """A run, its reference, and how they compare."""

    run: StudyRun
    reference: StudyRun
    result: RunComparisonResult

    def flag(self, by: SparsityKind) -> str:
        return pair_flag(self.run, self.reference, by)


def compare(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Two runs, by the beginnings of their hashes; `wina results --annotations` lists them."),
    ] = None,
    study: Annotated[str | None, typer.Option(help="Compare all runs of this study instead, by name or hash.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Baseline configuration of the study; TEAL or the first by default.")
    ] = None,
    by: Annotated[
        SparsityKind,
        typer.Option(help="Pair a study's runs by nearest measured sparsity (gated or net) or by equal target."),
    ] = DEFAULT_COUNT,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Use standard errors where no document scores are stored.")
    ] = False,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Compare two stored runs, or a study's configurations, on every task they share.

    Prints the difference, its 95 % interval and a two-sided p: the exact McNemar test for answers that are right or
    wrong, sign flips of the documents' differences for other scores, and exchanging the runs document by document for
    perplexities. The column "smallest p" has the smallest that so many documents allow. Holm's correction covers all
    runs compared with the same baseline, task by task.
    Pairs whose measured sparsities differ by more than 0.5 points are flagged.
    """
    if (study is None) == (not runs) or (runs and len(runs) != 2):
        raise WinaError("Name two runs, or a study with --study.")
    if baseline and study is None:
        raise WinaError("--baseline names a configuration of a study; add --study, or leave it out.")
    with Store(database) as store:
        if study is None:
            assert runs  # two, as checked
            stored_hashes = [row.run for row in store.runs()]
            first, second = (named_runs([prefix], stored_hashes, advice=LISTED)[0] for prefix in runs)
            pairs = _named_pair(store, first, second, unpaired)
        else:
            pairs = _study_pairs(store, study, baseline, by, unpaired)
    flagged = sum(bool(pair.flag(by)) for pair in pairs)
    print_table(*_table(pairs, by, of_study=study is not None, with_flags=as_json or flagged > 0), as_json)
    if flagged:
        apart = f"differ by more than {100 * TOLERANCE:g} points in {count_of(by)} sparsity"
        typer.echo(f"{flagged} of {len(pairs)} pairs {apart}; the column {FLAG} says by how much.", err=True)
    for test in dict.fromkeys(line.test for pair in pairs for line in pair.result.lines):
        typer.echo(f"{test}: 95 % interval by {INTERVALS[test]}.", err=True)


def _named_pair(store: Reader, run: str, reference: str, allow_unpaired: bool) -> list[_Pair]:
    study = shared_study(store, run, reference)
    if study is not None:
        typer.echo(f'Metrics and means are those of the study "{study.name}".', err=True)
    pairs = [(stored_run(store, run), stored_run(store, reference))]
    return _compared(store, pairs, study, allow_unpaired)


def _study_pairs(store: Store, name: str, baseline: str | None, by: SparsityKind, allow_unpaired: bool) -> list[_Pair]:
    spec = store.study_spec(study_hash(store, name))
    assert spec is not None  # it was just listed
    runs = study_runs(store, spec)
    configuration = baseline or usual_baseline(runs)
    pairs = comparable(runs, configuration, by) if configuration else ()
    if not pairs:
        raise WinaError(f'The study "{spec.name}" has no two configurations to compare.')
    return _compared(store, pairs, spec, allow_unpaired)


def _compared(
    store: Reader, pairs: Sequence[tuple[StudyRun, StudyRun]], study: StudySpec | None, allow_unpaired: bool
) -> list[_Pair]:
    hashes = [(run.run, reference.run) for run, reference in pairs]
    results = compare_pairs(store, hashes, study, allow_unpaired=allow_unpaired)
    if refusal := next((result.refusal for result in results if result.refusal), ""):
        raise WinaError(refusal)
    return [_Pair(*pair, result) for pair, result in zip(pairs, results, strict=True)]


# ---- the table -------------------------------------------------------------------------------------------------


def _table(
    pairs: Sequence[_Pair], by: SparsityKind, *, of_study: bool, with_flags: bool
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return columns and lines, several lines for each pair; the configurations and hashes only for those of a
    study."""
    count = count_of(by)
    sparsities = (f"first {count}", f"second {count}", "first target", "second target", *([FLAG] * with_flags))
    columns = (
        ("model", "configuration", "baseline", *sparsities, "run", "its baseline", *COLUMNS)
        if of_study
        else (*sparsities, *COLUMNS)
    )
    lines: list[tuple[Any, ...]] = []
    for pair in pairs:
        run, reference, result = pair
        who = (run.model, run.configuration, reference.configuration) if of_study else ()
        hashes = (run.run[:8], reference.run[:8]) if of_study else ()
        measured = (measured_sparsity(run, count), measured_sparsity(reference, count))
        targets = (run.target_sparsity, reference.target_sparsity)
        flags = (pair.flag(by),) if with_flags else ()
        lines += [(*who, *measured, *targets, *flags, *hashes, *line) for line in _lines(result)]
    return columns, lines


def _lines(result: RunComparisonResult) -> Iterator[tuple[Any, ...]]:
    for test in result.lines:
        interval = (end if math.isfinite(end) else None for end in (test.low, test.high))
        yield (
            test.task, base_metric(test.metric), test.first, test.second, test.effect, *interval,
            None if math.isnan(test.corrected) else test.corrected, test.smallest_p, test.n,
            test.first_only, test.second_only, test.test,
        )  # fmt: skip
