"""A study's report: one self-contained HTML page, the same as Markdown, and its tables for other programs."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from wina_core.analysis.comparison.worth import WorthRow, worth_rows
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count, SparsityKind, differ
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically, write_table
from wina_core.model_info.sharing import last_part
from wina_core.records import LatencyRecord
from wina_core.records.imports import ImportedValue
from wina_core.report.figures import ReportFigure, figures
from wina_core.report.findings import Findings, chat_template_text, gather, number
from wina_core.report.layout import ABSENT, MISSES, ReportCell, ReportTable, TextTable, tables
from wina_core.report.rendering import render_template
from wina_core.report.reproduce import shareable, study_command, study_command_note
from wina_core.report.significance import contrast_table, significance, significance_note, task_table
from wina_core.specs import ROLE, ModelSource, RunSpec, quantization_label
from wina_core.specs.studies import StudySpec
from wina_core.store import LatencyRow, Store
from wina_core.store.imported.metrics import METRICS, date_text
from wina_core.studies.expand import save_study_file

_TABLE_SUFFIXES = (".tex", ".csv", ".xlsx", ".parquet", ".json")


def make_report(
    store: Store,
    study: StudySpec,
    folder: Path,
    *,
    baseline: str = "",
    by: SparsityKind = DEFAULT_COUNT,
    with_tables: bool = False,
) -> Path:
    """Write NAME.html, NAME.md with plots as SVG, and NAME.toml, which reproduces the study; return the HTML's path.

    `with_tables` adds the tables as LaTeX, CSV, XLSX, Parquet and JSON. `baseline` is the configuration to compare the
    others with, by default as `usual_baseline`; `by` is the sparsity that pairs runs and is on the plots' axes. Blocks
    for some seconds. Raises WinaError for a study that was never launched here, an unknown baseline, and files that
    cannot be written.
    """
    name = file_name(study)
    document = write_up(store, study, f"{name}.toml", baseline, by)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WinaError(f"Cannot create the folder {folder} ({error.strerror}); choose another.") from error
    for figure in document.figures:
        write_atomically(folder / f"{name}-{figure.name}.svg", figure.svg)
    save_study_file(shareable(study), folder / f"{name}.toml")
    write_atomically(folder / f"{name}.md", markdown(document, name).encode())
    if with_tables:
        write_tables(document, folder, name)
    page = folder / f"{name}.html"
    write_atomically(page, html(document).encode())
    return page


def file_name(study: StudySpec) -> str:
    """Return the study's name as a file's: letters, digits and hyphens, with a part of its hash where it changed."""
    plain = re.sub(r"[^a-z0-9]+", "-", study.name.lower()).strip("-")[:80]
    return plain if plain == study.name else f"{plain or 'study'}-{study.content_hash()[:8]}"


def html(document: Document) -> str:
    """Return the self-contained page, without scripts; figures are images within it."""
    images = [b64encode(figure.svg).decode() for figure in document.figures]
    return render_template("page.html.j2", document=document, images=images)


def markdown(document: Document, name: str) -> str:
    """Return the page as Markdown; `name` begins the names of its figures' files."""
    return render_template("page.md.j2", document=document, name=name)


# ---- tables for other programs ---------------------------------------------------------------------------------


def write_tables(document: Document, folder: Path, name: str) -> None:
    """Write every table of results in each format, such as NAME-table-1.csv.

    LaTeX has the page's layout, with published numbers small and in brackets. The others have every digit, and columns
    for standard errors and published numbers. Raises WinaError as `write_table`.
    """
    for table_number, table in enumerate(document.tables, 1):
        for suffix in _TABLE_SUFFIXES:
            path = folder / f"{name}-table-{table_number}{suffix}"
            if suffix == ".tex":
                write_atomically(path, latex(table).encode())
            else:
                write_table(*_flat(table), path)


def latex(table: ReportTable) -> str:
    r"""Return a tabular with booktabs' rules, which needs \usepackage{booktabs}."""
    return render_template("table.tex.j2", table=table)


def _flat(table: ReportTable) -> tuple[list[str], list[list[object]]]:
    """Return columns and rows with every number in a cell of its own, without the marks of labels."""
    fields: dict[str, Callable[[ReportCell], float | None]] = {
        "": lambda cell: None if cell.value is None else cell.value.value,
        " stderr": lambda cell: None if cell.value is None else cell.value.stderr,
    }
    if table.has_paper:
        fields |= {" paper": lambda cell: cell.paper, " difference": lambda cell: cell.difference}
    columns = [*table.heads, *(f"{column}{suffix}" for column in table.columns for suffix in fields)]
    rows: list[list[object]] = [
        [
            *(label.removesuffix(MISSES) for label in row.labels),
            *(read(cell) for cell in row.cells for read in fields.values()),
        ]
        for row in table.rows
    ]
    return columns, rows


_MEASURED: Mapping[Count, str] = {
    "gated": "Measured is the gated sparsity: the fraction of the gated weights that the masks left out.",
    "net": "Measured is the net sparsity: the fraction of the gated weights that the masks left out, with all that "
    "is read in their place counted as read.",
}
_MIN_THOUSANDS = 1e4
"""Smallest imported number that is written with separators of thousands."""


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
    tables: tuple[ReportTable, ...]
    latency: tuple[TextTable, ...]
    worth: TextTable | None
    imported: TextTable | None
    contrasts: TextTable | None
    contrast_details: TextTable | None
    contrast_note: str
    figures: tuple[ReportFigure, ...]
    units: TextTable
    environments: TextTable
    failures: TextTable | None
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
    main = tables(findings)
    contrasts = significance(store, findings, baseline)
    environments = _environments(findings)
    specs = list(store.run_specs(study.content_hash()).values())
    return Document(
        title=_title(findings),
        name=study.name,
        description=study.description,
        summary=_summary(findings, environments),
        command=study_command(study, study_file, samples=store.has_samples(study.content_hash())),
        command_note=study_command_note(study),
        study_file=study_file,
        warnings=findings.warnings,
        measured_note=_MEASURED[findings.count],
        tables=main,
        latency=_latency(findings.latency),
        worth=_worth(store, specs),
        imported=_imported(store, {spec.model for spec in specs}),
        contrasts=contrast_table(contrasts) if contrasts else None,
        contrast_details=task_table(contrasts) if contrasts else None,
        contrast_note=significance_note(contrasts, by) if contrasts else "",
        figures=figures(store, findings),
        units=_units(findings, environments),
        environments=TextTable(
            "Hardware and libraries", ("", "Device", "Hardware", "Versions"), tuple(environments.values())
        ),
        failures=_failures(findings),
        published=any(table.has_paper for table in main),
    )


def _title(findings: Findings) -> str:
    title = findings.study.title or findings.study.name
    return f"{title} (demo model)" if findings.of_demo and "demo model" not in title.lower() else title


# ---- what was run ----------------------------------------------------------------------------------------------


def _summary(findings: Findings, environments: Mapping[str, tuple[str, ...]]) -> tuple[tuple[str, str], ...]:
    study, evaluation = findings.study, findings.study.evaluation
    missing, requested = findings.missing
    pairs = [("Study", f"{study.name} ({study.content_hash()})")]
    if study.models:
        configurations = [f"{one.name} = {one.label}" if one.name else one.label for one in study.configurations]
        pairs += [("Models", ", ".join(_models(study))), ("Methods", ", ".join(configurations))]
        done = f"{requested - missing:,} of {requested:,} measurements"
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
    return [
        _with_details(
            last_part(model.location.removeprefix(ROLE)),
            hubs.get(model.location, ""),
            model.dtype if model.dtype != "auto" else "",
            quantization_label(model.quantization) if model.quantization != "none" else "",
        )
        for model in study.models
    ]


def _task(findings: Findings, name: str) -> str:
    """Name a task with its few-shot examples, version and limit."""
    rows = [row for run in findings.runs for row in findings.of(run.run, name)]
    shots = sorted({row.num_fewshot for row in rows if row.num_fewshot is not None})
    versions = sorted({row.version for row in rows if row.version is not None and row.task == name})
    task = findings.study.evaluation.task(name)
    return _with_details(
        name,
        f"{'/'.join(map(str, shots))}-shot" if shots else "",
        f"version {'/'.join(versions)}" if versions else "",
        f"limit {task.limit}" if task.limit else "",
        f"from document {task.first} on" if task.first else "",
        chat_template_text(findings.study.evaluation, findings.has_template),
    )


def _with_details(name: str, *details: str) -> str:
    label = ", ".join(filter(None, details))
    return f"{name} ({label})" if label else name


def _environments(findings: Findings) -> dict[str, tuple[str, ...]]:
    """Return letter, device, hardware and versions of each environment, by its text."""
    rows: dict[str, tuple[str, ...]] = {}

    def letter() -> str:
        return chr(ord("A") + len(rows)) if len(rows) < 26 else str(len(rows) + 1)

    for unit in findings.units:
        versions = ", ".join(f"{name} {version}" for name, version in unit.versions.items())
        key = f"{unit.device} {unit.hardware} {versions}"
        rows.setdefault(key, (letter(), unit.device or ABSENT, unit.hardware or ABSENT, versions))
    for timed in findings.latency:
        if not any(timed.machine == row[1:3] for row in rows.values()):
            rows[" ".join(timed.machine)] = letter(), *timed.machine, ABSENT
    return rows


def _units(findings: Findings, environments: Mapping[str, tuple[str, ...]]) -> TextTable:
    runs = {run.run: run for run in findings.runs}
    rows = []
    for unit in findings.units:
        run = runs[unit.run]
        versions = ", ".join(f"{name} {version}" for name, version in unit.versions.items())
        environment, *_ = environments[f"{unit.device} {unit.hardware} {versions}"]
        labels = (run.run[:8], run.model, run.configuration, f"{100 * run.target_sparsity:.4g} %", unit.unit)
        sparsity = _percent(unit.gated_sparsity), _percent(unit.net_sparsity)
        rows.append((*labels, *sparsity, f"{unit.seconds:,.1f}", _date(unit.finished), environment))
    columns = ("Run", "Model", "Method", "Target", "Unit", "Gated sparsity", "Net sparsity")
    return TextTable("Every measurement", (*columns, "Seconds", "Finished (UTC)", "On"), tuple(rows))


def _failures(findings: Findings) -> TextTable | None:
    states = [(run, findings.statuses[run.run]) for run in findings.runs if run.run in findings.statuses]
    rows = tuple(
        (run.model, run.configuration, f"{100 * run.target_sparsity:.4g} %", row.status, row.error)
        for run, row in states
        if row.error
    )
    columns = ("Model", "Method", "Target", "State", "Why")
    return TextTable("Runs that ended with an error", columns, rows) if rows else None


# ---- latency ---------------------------------------------------------------------------------------------------


def _latency(rows: Sequence[LatencyRow]) -> tuple[TextTable, ...]:
    """Return for each shape, dtype and backend speed-ups and milliseconds: rows method x batch, columns targets."""
    groups: dict[tuple[str, str, str], list[LatencyRecord]] = {}
    for record in (row.record for row in rows):
        point = record.point
        if point.method != "dense":
            groups.setdefault((point.shape.label, point.dtype, point.backend), []).append(record)
    return tuple(_speedups(", ".join(key), members) for key, members in groups.items())


def _speedups(title: str, records: Sequence[LatencyRecord]) -> TextTable:
    targets = sorted({record.point.sparsity for record in records})
    cells: dict[tuple[str, int], dict[float, str]] = {}
    for record in records:
        point = record.point
        cells.setdefault((point.method, point.batch), {})[point.sparsity] = _speedup(record)
    rows = tuple(
        (method, str(batch), *(by_target.get(target, ABSENT) for target in targets))
        for (method, batch), by_target in sorted(cells.items())
    )
    columns = ("Method", "Batch", *(f"Target {100 * target:.4g} %" for target in targets))
    return TextTable(f"Times as fast as dense: {title}", columns, rows)


def _speedup(record: LatencyRecord) -> str:
    """Write a speed-up with its time, and the measured sparsity where it misses its target."""
    measured = f"; {100 * record.measured_sparsity:.1f} % measured"
    missed = measured if differ(record.measured_sparsity, record.point.sparsity) else ""
    return f"{record.speedup:.2f} ({record.median_ms:.3g} ms{missed})"


def _worth(store: Store, runs: Iterable[RunSpec]) -> TextTable | None:
    """Return the verdicts on the timed decoding of the runs' models, rotations and methods; None without any."""
    configurations = {(*_model_key(run.model), run.rotation, run.method) for run in runs}
    rows = [
        row
        for row in worth_rows(store.decode_rows(), store.imports())
        if (*_model_key(row.point.model), row.point.rotation, row.point.method) in configurations
    ]
    columns = (
        *("Model", "Weights", "Method", "Tokens/s", "Prompt tokens/s, vs dense", "Held MB", "Peak MB"),
        *("Pays up to batch", "Verdict", "Timed on"),
    )
    title = "Decoding of one sequence, on the machine named"
    return TextTable(title, columns, tuple(map(_verdict, rows))) if rows else None


def _model_key(model: ModelSource) -> tuple[object, ...]:
    return model.location, model.fingerprint, model.quantization


def _verdict(row: WorthRow) -> tuple[str, ...]:
    timed = row.row.record
    prompt = f"{timed.prefill_tokens_per_second:.4g}, {row.prefill.gain.text}"
    memory = (ABSENT if size is None else f"{size / 1e6:,.1f}" for size in (timed.held_bytes, timed.peak_bytes))
    speed = f"{timed.tokens_per_second:.4g}"
    return row.model, row.bits, row.configuration, speed, prompt, *memory, row.batches, row.verdict.text, row.machine[1]


# ---- results of other tools ------------------------------------------------------------------------------------


def _imported(store: Store, models: Iterable[ModelSource]) -> TextTable | None:
    """Return the imported points of the models, each with its file and date; None without any."""
    models, rows = list(models), []
    for stored in store.imports():
        if any(map(stored.is_of, models)):
            content = stored.content
            date = date_text(stored) + ("" if stored.is_dated else " (import)")
            origin = f"{content.tool} {content.version}".strip(), content.file, date
            for point in content.points:
                values = ", ".join(_imported_value(name, value) for name, value in point.metrics.items())
                rows.append((stored.model, point.name, values, *origin))
    columns = ("Model", "Configuration", "Imported numbers", "Tool", "File", "Date")
    return TextTable("Imported, not measured here, and in no other table", columns, tuple(rows)) if rows else None


def _imported_value(name: str, imported: ImportedValue) -> str:
    """Return a text such as "kl 0.01748 ± 0.00076 nats per token"."""
    value = f"{imported.value:,.0f}" if abs(imported.value) >= _MIN_THOUSANDS else f"{imported.value:.4g}"
    error = "" if imported.stderr is None else f" ± {imported.stderr:.2g}"
    metric = METRICS.get(name)
    return f"{name} {value}{error}" if metric is None else f"{metric.column} {value}{error} {metric.unit}"


def _percent(share: float | None) -> str:
    return ABSENT if share is None else number(100 * share, "mean")


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
