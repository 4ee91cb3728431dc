"""Tests of a study's configurations against a baseline at the nearest sparsity, and their tables."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from wina_core.analysis.comparison.compare_runs import RunComparisonResult, compare_pairs
from wina_core.analysis.comparison.compare_tasks import FLIPPED, INTERVALS, PROPAGATED, UNTESTED, Comparison
from wina_core.analysis.comparison.study_runs import StudyRun, comparable, pair_flag, usual_baseline
from wina_core.analysis.results.measured import TOLERANCE, SparsityKind, count_of
from wina_core.records.texts import p_text
from wina_core.report.findings import Findings, signed
from wina_core.report.layout import ABSENT, TextTable
from wina_core.specs import printed_quantization
from wina_core.store import Store
from wina_core.studies.published import display_scale

_LEVEL = 0.05
_PAIR = ("Model", "Measured (it / baseline)", "Target (it / baseline)", "Method")
_MEANS = {
    FLIPPED: "Means over tasks that are all paired are tested by flipping the signs of their documents' differences",
    PROPAGATED: "Means over tasks that are not all paired are tested by a normal distribution, as if the tasks were "
    "independent",
    UNTESTED: "Means over tasks of which one has neither documents nor a standard error are not tested",
}


class Contrast(NamedTuple):
    """One run against the baseline's."""

    run: StudyRun
    baseline: StudyRun
    result: RunComparisonResult
    flag: str
    """Difference of the measured sparsities (`pair_flag`)."""
    measured: tuple[float | None, float | None]
    """Measured sparsities of the run and the baseline."""


def significance(store: Store, findings: Findings, baseline: str = "") -> tuple[Contrast, ...]:
    """Test every configuration against `baseline`, by default the `usual_baseline`, paired where samples are stored.

    Each p, of tasks and of means, counts among all configurations that are compared with the same run. Returns nothing
    without anything to compare. Raises WinaError for a configuration that the study does not have.
    """
    name = baseline or usual_baseline(findings.runs)
    if name is None:
        return ()
    pairs = comparable(findings.runs, name, findings.by)
    hashes = [(run.run, reference.run) for run, reference in pairs]
    results = compare_pairs(store, hashes, findings.study, allow_unpaired=True, whole_tasks=True)
    contrasts = tuple(
        Contrast(
            run,
            reference,
            result,
            flag=pair_flag(run, reference, findings.by),
            measured=(findings.measured(run), findings.measured(reference)),
        )
        for (run, reference), result in zip(pairs, results, strict=True)
    )
    return contrasts if any(contrast.result.tasks for contrast in contrasts) else ()


def _baseline(contrasts: Sequence[Contrast]) -> str:
    return contrasts[0].baseline.configuration


# ---- tables ----------------------------------------------------------------------------------------------------


def contrast_table(contrasts: Sequence[Contrast]) -> TextTable:
    """Return the means of all contrasts, or their tasks where there is no mean."""
    rows: list[tuple[str, ...]] = []
    for contrast in contrasts:
        pair, tasks = _pair(contrast), contrast.result.tasks
        if mean := contrast.result.mean:
            significant = [task.effect for task in tasks if task.corrected < _LEVEL]
            above, below = sum(effect > 0 for effect in significant), sum(effect < 0 for effect in significant)
            over, tally = f"mean of {len(contrast.result.averaged)}", f"{above} / {below} of {len(tasks)}"
            rows.append((*pair, over, *_effect(mean), tally, contrast.flag))
        else:
            rows += [(*pair, task.task, *_effect(task), "", contrast.flag) for task in tasks]
        if refusal := contrast.result.refusal:
            note = "; ".join(filter(None, (contrast.flag, refusal)))
            rows.append((*pair, "", ABSENT, "", "", "", note))
    columns = (*_PAIR, "Over", "Difference", "95 % interval", "p", "Tasks above / below", "Note")
    return _without_empty_columns(f"Against {_baseline(contrasts)}", columns, rows)


def task_table(contrasts: Sequence[Contrast]) -> TextTable:
    """Return all contrasts task by task, with their tests."""
    rows: list[tuple[str, ...]] = []
    for contrast in contrasts:
        for task in contrast.result.tasks:
            n = "" if task.n is None else f"{task.n:,}"
            only = "" if task.first_only is None else f"{task.first_only} / {task.second_only}"
            rows.append((*_pair(contrast), task.task, *_effect(task), n, only, task.test, contrast.flag))
    columns = ("Task", "Difference", "95 % interval", "p", "n", "Only it / only the baseline", "Test", "Note")
    return _without_empty_columns(f"Against {_baseline(contrasts)}, task by task", (*_PAIR, *columns), rows)


def significance_note(contrasts: Sequence[Contrast], by: SparsityKind) -> str:
    """Return how runs were paired, and the tests with their intervals."""
    tests = dict.fromkeys(task.test for contrast in contrasts for task in contrast.result.tasks)
    mean_tests = dict.fromkeys(contrast.result.mean.test for contrast in contrasts if contrast.result.mean)
    return " ".join(
        [
            f"Each method minus {_baseline(contrasts)} {_matching(contrasts, by)}; differences are in the units of the "
            "tables, and p is two-sided, beside the smallest that the documents allow (min) where they are few. Tests, "
            f"and their 95 % intervals, {ABSENT} where the documents are too few for one: "
            f"{'; '.join(f'{test} ({INTERVALS[test]})' for test in tests)}.",
            *(f"{_MEANS[test]}; their 95 % intervals: {INTERVALS[test]}." for test in mean_tests),
            "Each p is corrected by Holm for all that are compared with the same run on the same task; intervals are "
            "not.",
        ]
    )


def _matching(contrasts: Sequence[Contrast], by: SparsityKind) -> str:
    """Return the rule that paired a run with its baseline, in words."""
    if all(contrast.baseline.is_dense for contrast in contrasts):
        return "of the same model and weights"
    where = "at equal target" if by == "target" else f"at the nearest {by} sparsity"
    return (
        f"of the same model, weights and allocation, {where} (a note says where the {count_of(by)} sparsities of both "
        f"differ by more than {100 * TOLERANCE:g} points)"
    )


def _pair(contrast: Contrast) -> tuple[str, str, str, str]:
    run = contrast.run
    model = " ".join(filter(None, (run.model, printed_quantization(run.quantization))))
    configuration = run.configuration if run.allocation == "uniform" else f"{run.configuration}, {run.allocation}"
    measured = " / ".join(ABSENT if value is None else f"{100 * value:.1f}" for value in contrast.measured)
    targets = " / ".join(f"{100 * target:.4g}" for target in (run.target_sparsity, contrast.baseline.target_sparsity))
    return model, f"{measured} %", f"{targets} %", configuration


def _effect(comparison: Comparison) -> tuple[str, str, str]:
    metric = comparison.metric
    scale = 100.0 if metric == "mean" else display_scale(metric)
    low, high = (scale * end for end in (comparison.low, comparison.high))
    is_known = math.isfinite(low) and math.isfinite(high)
    interval = f"{signed(low, metric)} to {signed(high, metric)}" if is_known else ABSENT
    return signed(scale * comparison.effect, metric), interval, p_text(comparison.corrected, comparison.smallest_p)


def _without_empty_columns(title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> TextTable:
    filled = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    return TextTable(
        title,
        tuple(columns[index] for index in filled),
        tuple(tuple(row[index] for index in filled) for row in rows),
    )
