"""The content of a report, the same for HTML and Markdown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from wina_core.analysis.comparison.compare_tasks import FLIPPED, INTERVALS, PROPAGATED, UNTESTED, Comparison
from wina_core.analysis.results.measured import DEFAULT_COUNT, TOLERANCE, Count, SparsityKind, count_of, differ
from wina_core.model_info.names import last_part
from wina_core.records.texts import p_text
from wina_core.report.beside import imported_table, worth_table
from wina_core.report.figures import Figure, figures
from wina_core.report.findings import Findings, gather
from wina_core.report.formats import number, signed
from wina_core.report.layout import ABSENT, Table, tables
from wina_core.report.measured_on import chat_template_text
from wina_core.report.plain import Plain
from wina_core.report.reproduce import command, command_note
from wina_core.report.significance import Contrast, Significance, counted, scale, significance
from wina_core.specs import ROLE, printed_quantization, quantization_label
from wina_core.specs.studies import StudySpec
from wina_core.store import LatencyRow, Store

_WHO = ("Model", "Measured (it / baseline)", "Target (it / baseline)", "Method")
_MEASURED: Mapping[Count, str] = {
    "gated": "Measured is the gated sparsity: the fraction of the gated weights that the masks left out.",
    "net": "Measured is the net sparsity: the fraction of the gated weights that the masks left out, with all that "
    "is read in their place counted as read.",
}
_MEANS = {
    FLIPPED: "Means over tasks that are all paired are tested by flipping the signs of their documents' differences",
    PROPAGATED: "Means over tasks that are not all paired are tested by a normal distribution, as if the tasks were "
    "independent",
    UNTESTED: "Means over tasks of which one has neither documents nor a standard error are not tested",
}


@dataclass(frozen=True)
class Document:
    """A study's report."""

    title: str
    name: str
    description: str
    summary: tuple[tuple[str, str], ...]
    """Names and values of the study's settings."""
    command: str
    command_note: str
    """Remarks on running it; may be empty."""
    study_file: str
    warnings: tuple[str, ...]
    measured_note: str
    """Definition of the measured sparsity in tables."""
    tables: tuple[Table, ...]
    latency: tuple[Plain, ...]
    worth: Plain | None
    imported: Plain | None
    contrasts: Plain | None
    contrast_details: Plain | None
    contrast_note: str
    figures: tuple[Figure, ...]
    units: Plain
    environments: Plain
    failures: Plain | None
    published: bool
    """True with any published number beside ours."""


def write_up(
    store: Store, study: StudySpec, study_file: str, baseline: str = "", by: SparsityKind = DEFAULT_COUNT
) -> Document:
    """Return a report's content; `study_file` is the name of the file beside it that reproduces the study.

    `by` is the sparsity that pairs runs and is on the plots' axes. Raises WinaError for a study that was never launched
    here, and an unknown baseline.
    """
    findings = gather(store, study, by)
    found = tables(findings)
    contrasts = significance(store, findings, baseline)
    environments = _environments(findings)
    specs = list(store.run_specs(study.content_hash()).values())
    return Document(
        title=_title(findings),
        name=study.name,
        description=study.description,
        summary=_summary(findings, environments),
        command=command(study, study_file, samples=store.has_samples(study.content_hash())),
        command_note=command_note(study),
        study_file=study_file,
        warnings=findings.warnings,
        measured_note=_MEASURED[findings.count],
        tables=found,
        latency=_latency(findings.latency),
        worth=worth_table(store, specs),
        imported=imported_table(store, {spec.model for spec in specs}),
        contrasts=_contrasts(contrasts) if contrasts else None,
        contrast_details=_details(contrasts) if contrasts else None,
        contrast_note=_note(contrasts, by) if contrasts else "",
        figures=figures(store, findings),
        units=_units(findings, environments),
        environments=Plain(
            "Hardware and libraries", ("", "Device", "Hardware", "Versions"), tuple(environments.values())
        ),
        failures=_failures(findings),
        published=any(table.has_paper for table in found),
    )


def _title(findings: Findings) -> str:
    """Return the study's title, with a remark on the demo model where that was used."""
    title = findings.study.title or findings.study.name
    return f"{title} (demo model)" if findings.of_demo and "demo model" not in title.lower() else title


# ---- what was run ----------------------------------------------------------------------------------------------


def _summary(findings: Findings, environments: dict[str, tuple[str, ...]]) -> tuple[tuple[str, str], ...]:
    study = findings.study
    evaluation = study.evaluation
    missing, wanted = findings.missing
    pairs = [("Study", f"{study.name} ({study.content_hash()})")]
    if study.models:
        pairs += [("Models", ", ".join(_models(study))), ("Methods", ", ".join(_configurations(findings)))]
        done = f"{wanted - missing:,} of {wanted:,} measurements"
        pairs.append(("Completed", f"{done}; {missing:,} missing" if missing else f"{done}, none missing"))
    if evaluation.synthetic:
        pairs.append(("Networks", evaluation.synthetic.label))
    if findings.tasks:
        pairs.append(("Tasks", ", ".join(_task(findings, name) for name in findings.tasks)))
        pairs.append(("Seed", str(evaluation.seed)))
        prefix = f"{100 * evaluation.dense_prefix:g} % of every sequence" if evaluation.dense_prefix else "none"
        pairs.append(("Left dense", prefix))
    if evaluation.fidelity and study.models and not evaluation.synthetic:
        pairs.append(("Fidelity without gates", evaluation.fidelity.label))
    if evaluation.original and study.models:
        pairs.append(("Fidelity to the original", evaluation.original.label))
    if evaluation.cost_context:
        pairs.append(("Cost of a token", f"after {evaluation.cost_context:,} positions"))
    if study.latency:
        pairs.append(("Latency", f"{len(findings.latency):,} points measured"))
    pairs.append(("Hardware", "; ".join(dict.fromkeys(row[2] for row in environments.values())) or ABSENT))
    dates = [_date(unit.finished) for unit in findings.units] or [_date(row.recorded) for row in findings.latency]
    pairs.append(("Computed", " to ".join(dict.fromkeys((min(dates), max(dates)))) if dates else ABSENT))
    return tuple(pairs)


def _models(study: StudySpec) -> list[str]:
    hubs = {ROLE + role.name: role.hub for role in study.roles}
    found = []
    for model in study.models:
        name = model.location.removeprefix(ROLE)
        name = last_part(name)
        details = [hubs.get(model.location, ""), model.dtype if model.dtype != "auto" else ""]
        details.append(quantization_label(model.quantization) if model.quantization != "none" else "")
        label = ", ".join(filter(None, details))
        found.append(f"{name} ({label})" if label else name)
    return found


def _configurations(findings: Findings) -> list[str]:
    return [
        f"{configuration.name} = {configuration.label}" if configuration.name else configuration.label
        for configuration in findings.study.configurations
    ]


def _task(findings: Findings, name: str) -> str:
    """Name a task with its few-shot examples, version and limit."""
    rows = [row for run in findings.runs for row in findings.of(run.run, name)]
    shots = sorted({row.num_fewshot for row in rows if row.num_fewshot is not None})
    versions = sorted({row.version for row in rows if row.version is not None and row.task == name})
    task = findings.study.evaluation.task(name)
    details = [
        f"{'/'.join(map(str, shots))}-shot" if shots else "",
        f"version {'/'.join(versions)}" if versions else "",
    ]
    details.append(f"limit {task.limit}" if task.limit else "")
    details.append(f"from document {task.first} on" if task.first else "")
    details.append(chat_template_text(findings.study.evaluation, findings.has_template))
    label = ", ".join(filter(None, details))
    return f"{name} ({label})" if label else name


def _environments(findings: Findings) -> dict[str, tuple[str, ...]]:
    """Return letter, device, hardware and versions of each environment, by its text."""
    found: dict[str, tuple[str, ...]] = {}
    for unit in findings.units:
        versions = ", ".join(f"{name} {version}" for name, version in unit.versions.items())
        key = f"{unit.device} {unit.hardware} {versions}"
        if key not in found:
            found[key] = (_letter(len(found)), unit.device or ABSENT, unit.hardware or ABSENT, versions)
    for row in findings.latency:
        key = f"{row.device} {row.hardware}"
        if not any(key == f"{other[1]} {other[2]}" for other in found.values()):
            found[key] = (_letter(len(found)), row.device, row.hardware, ABSENT)
    return found


def _letter(place: int) -> str:
    return chr(ord("A") + place) if place < 26 else str(place + 1)


def _units(findings: Findings, environments: dict[str, tuple[str, ...]]) -> Plain:
    runs = {run.run: run for run in findings.runs}
    rows = []
    for unit in findings.units:
        run = runs[unit.run]
        versions = ", ".join(f"{name} {version}" for name, version in unit.versions.items())
        place = environments[f"{unit.device} {unit.hardware} {versions}"][0]
        rows.append(
            (
                run.run[:8], run.model, run.configuration, f"{100 * run.target_sparsity:.4g} %", unit.unit,
                _percent(unit.gated_sparsity), _percent(unit.net_sparsity), f"{unit.seconds:,.1f}",
                _date(unit.finished), place,
            )
        )  # fmt: skip
    columns = (
        "Run",
        "Model",
        "Method",
        "Target",
        "Unit",
        "Gated sparsity",
        "Net sparsity",
        "Seconds",
        "Finished (UTC)",
        "On",
    )
    return Plain("Every measurement", columns, tuple(rows))


def _failures(findings: Findings) -> Plain | None:
    failed = [(run, findings.statuses[run.run]) for run in findings.runs if run.run in findings.statuses]
    rows = tuple(
        (run.model, run.configuration, f"{100 * run.target_sparsity:.4g} %", row.status, row.error)
        for run, row in failed
        if row.error
    )
    return Plain("Runs that ended with an error", ("Model", "Method", "Target", "State", "Why"), rows) if rows else None


# ---- significance ----------------------------------------------------------------------------------------------


def _contrasts(found: Significance) -> Plain:
    rows: list[tuple[str, ...]] = []
    for contrast in found.contrasts:
        above, below = counted(contrast)
        tally = f"{above} / {below} of {len(contrast.tasks)}"
        if contrast.mean:
            rows.append(
                (*_who(contrast), f"mean of {len(contrast.averaged)}", *_effect(contrast.mean), tally, contrast.flag)
            )
        rows += [
            (*_who(contrast), each.task, *_effect(each), "", contrast.flag)
            for each in contrast.tasks
            if not contrast.mean
        ]
        if contrast.refusal:
            rows.append((*_who(contrast), "", ABSENT, "", "", "", _remark(contrast)))
    columns = (*_WHO, "Over", "Difference", "95 % interval", "p", "Tasks above / below", "Note")
    return Plain(f"Against {found.baseline}", *_without_empty(columns, rows))


def _details(found: Significance) -> Plain:
    rows = tuple(
        (
            *_who(contrast), each.task, *_effect(each), "" if each.n is None else f"{each.n:,}",
            "" if each.first_only is None else f"{each.first_only} / {each.second_only}", each.test, contrast.flag,
        )
        for contrast in found.contrasts
        for each in contrast.tasks
    )  # fmt: skip
    columns = (
        *_WHO, "Task", "Difference", "95 % interval", "p", "n", "Only it / only the baseline", "Test", "Note",
    )  # fmt: skip
    return Plain(f"Against {found.baseline}, task by task", *_without_empty(columns, rows))


def _who(contrast: Contrast) -> tuple[str, str, str, str]:
    run = contrast.run
    model = " ".join(filter(None, (run.model, printed_quantization(run.quantization))))
    configuration = run.configuration if run.allocation == "uniform" else f"{run.configuration}, {run.allocation}"
    measured = " / ".join(ABSENT if found is None else f"{100 * found:.1f}" for found in contrast.measured)
    targets = " / ".join(f"{100 * each.target_sparsity:.4g}" for each in (run, contrast.baseline))
    return model, f"{measured} %", f"{targets} %", configuration


def _remark(contrast: Contrast) -> str:
    return "; ".join(filter(None, (contrast.flag, contrast.refusal)))


def _effect(each: Comparison) -> tuple[str, str, str]:
    factor, metric = scale(each), each.metric
    known = math.isfinite(each.low) and math.isfinite(each.high)
    interval = f"{signed(factor * each.low, metric)} to {signed(factor * each.high, metric)}" if known else ABSENT
    return signed(factor * each.effect, metric), interval, p_text(each.p, each.smallest_p)


def _note(found: Significance, by: SparsityKind) -> str:
    tests = "; ".join(f"{test} ({INTERVALS[test]})" for test in found.tests)
    means = [f"{_MEANS[test]}; their 95 % intervals: {INTERVALS[test]}." for test in found.mean_tests]
    return " ".join(
        [
            f"Each method minus {found.baseline} {_matching(found, by)}; differences are in the units of the tables, "
            "and p is two-sided, beside the smallest that the documents allow (min) where they are few. Tests, and "
            f"their 95 % intervals, {ABSENT} where the documents are too few for one: {tests}.",
            *means,
            "Each p is corrected by Holm for all that are compared with the same run on the same task; intervals are "
            "not.",
        ]
    )


def _matching(found: Significance, by: SparsityKind) -> str:
    """Say how a run and its baseline were paired."""
    if all(contrast.baseline.is_dense for contrast in found.contrasts):
        return "of the same model and weights"
    where = "at equal target" if by == "target" else f"at the nearest {by} sparsity"
    return (
        f"of the same model, weights and allocation, {where} (a note says where the {count_of(by)} sparsities of both "
        f"differ by more than {100 * TOLERANCE:g} points)"
    )


def _without_empty(
    columns: Sequence[str], rows: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    return tuple(columns[place] for place in kept), tuple(tuple(row[place] for place in kept) for row in rows)


# ---- latency ---------------------------------------------------------------------------------------------------


def _latency(rows: Sequence[LatencyRow]) -> tuple[Plain, ...]:
    """Return for each shape, dtype and backend speed-ups and milliseconds: rows method x batch, columns targets."""
    groups: dict[tuple[str, str, str], list[LatencyRow]] = {}
    for row in rows:
        if row.method != "dense":
            groups.setdefault((f"{row.outputs}x{row.inputs}", row.dtype, row.backend), []).append(row)
    return tuple(_speedups(", ".join(key), members) for key, members in groups.items())


def _speedups(title: str, rows: Sequence[LatencyRow]) -> Plain:
    targets = sorted({row.sparsity for row in rows})
    lines: dict[tuple[str, int], dict[float, LatencyRow]] = {}
    for row in rows:
        lines.setdefault((row.method, row.batch), {})[row.sparsity] = row
    cells = tuple(
        (method, str(batch), *(_speedup(found[target]) if target in found else ABSENT for target in targets))
        for (method, batch), found in sorted(lines.items())
    )
    columns = ("Method", "Batch", *(f"Target {100 * target:.4g} %" for target in targets))
    return Plain(f"Times as fast as dense: {title}", columns, cells)


def _speedup(row: LatencyRow) -> str:
    """Write a speed-up with its time, and the measured sparsity where it misses its target."""
    missed = f"; {100 * row.measured_sparsity:.1f} % measured" if differ(row.measured_sparsity, row.sparsity) else ""
    return f"{row.speedup:.2f} ({row.median_ms:.3g} ms{missed})"


def _percent(share: float | None) -> str:
    return ABSENT if share is None else number(100 * share, "mean")


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
