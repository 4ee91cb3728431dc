"""Tests of a study's configurations against a baseline at the nearest sparsity."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wina_core.analysis.comparison.compare_pairs import PairResult, compare_pairs
from wina_core.analysis.comparison.compare_tasks import Comparison
from wina_core.analysis.comparison.study_runs import StudyRun, comparable, pair_flag, usual_baseline
from wina_core.report.findings import Findings
from wina_core.store import Store
from wina_core.studies.published import display_scale


@dataclass(frozen=True)
class Contrast:
    """One run against the baseline's."""

    run: StudyRun
    baseline: StudyRun
    tasks: tuple[Comparison, ...]
    """One comparison for each task."""
    mean: Comparison | None
    averaged: tuple[str, ...] = ()
    """Tasks of the mean."""
    flag: str = ""
    """Difference of the measured sparsities (`pair_flag`)."""
    measured: tuple[float | None, float | None] = (None, None)
    """Measured sparsities of the run and the baseline."""
    refusal: str = ""
    """Reason for no comparison; empty with one."""


@dataclass(frozen=True)
class Significance:
    """All contrasts of a study."""

    baseline: str
    contrasts: tuple[Contrast, ...]

    @property
    def tests(self) -> tuple[str, ...]:
        """Kinds of the tasks' tests."""
        return tuple(dict.fromkeys(each.test for contrast in self.contrasts for each in contrast.tasks))

    @property
    def mean_tests(self) -> tuple[str, ...]:
        """Kinds of the means' tests."""
        return tuple(dict.fromkeys(contrast.mean.test for contrast in self.contrasts if contrast.mean))


def significance(store: Store, findings: Findings, baseline: str = "") -> Significance | None:
    """Test every configuration against `baseline`, by default what `usual_baseline` says, paired where samples are
    stored. None where there is nothing to compare. Each p, of tasks and of means, counts among all configurations that
    are compared with the same run. Raises WinaError for a configuration that the study does not have."""
    name = baseline or usual_baseline(findings.runs)
    if name is None:
        return None
    pairs = comparable(findings.runs, name, findings.by)
    hashes = [(run.run, reference.run) for run, reference in pairs]
    results = compare_pairs(store, hashes, findings.study, allow_unpaired=True, whole_tasks=True)
    contrasts = tuple(_contrast(findings, *pair, result) for pair, result in zip(pairs, results, strict=True))
    return Significance(name, contrasts) if any(contrast.tasks for contrast in contrasts) else None


def _contrast(findings: Findings, run: StudyRun, baseline: StudyRun, result: PairResult) -> Contrast:
    found = result.found
    return Contrast(
        run,
        baseline,
        tasks=tuple(replace(each, p=result.corrected(each)) for each in found.tasks),
        mean=replace(found.mean, p=result.corrected(found.mean)) if found.mean else None,
        averaged=found.averaged,
        flag=pair_flag(run, baseline, findings.by),
        measured=(findings.measured(run), findings.measured(baseline)),
        refusal=result.refusal,
    )


def scale(comparison: Comparison) -> float:
    """Return the factor of a comparison's numbers in tables: 100 for fractions and means of them."""
    return 100.0 if comparison.metric == "mean" else display_scale(comparison.metric)


def counted(contrast: Contrast, level: float = 0.05) -> tuple[int, int]:
    """Count the tasks whose value is significantly above the baseline's, and those below."""
    found: Sequence[Comparison] = [each for each in contrast.tasks if each.p < level]
    return sum(each.effect > 0 for each in found), sum(each.effect < 0 for each in found)
