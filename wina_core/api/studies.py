"""Studies: opened, computed, and returned as a table."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from wina_core.api.arguments import checked
from wina_core.api.progress import library_reporter, terminal_reporter
from wina_core.api.running import Reporting, announce_products, run_recorded
from wina_core.api.session import in_job
from wina_core.errors import WinaError
from wina_core.jobs import DecodeJob, Event, Job, LatencyJob, Measured, RunFailed
from wina_core.records import DecodeRecord, LatencyRecord, SweepReport
from wina_core.records.texts import percent_apart
from wina_core.specs.latency import STEADY, LatencySpec
from wina_core.specs.studies import StudySpec
from wina_core.store import LatencyRow, MetricFilter, Store
from wina_core.studies.expand import bind, rebind, with_data_folder
from wina_core.studies.gallery import absolute, find_study, load_roles
from wina_core.studies.launch import Launched, LaunchOptions, launch

if TYPE_CHECKING:  # torch and pandas take seconds to import
    import pandas as pd

    from wina_core.compute.session.model_session import Session


@dataclass(frozen=True)
class Computed:
    """A study that was computed as far as possible."""

    study: str
    """Hash in the store."""
    runs: int
    failures: tuple[RunFailed, ...] = ()

    def check(self) -> None:
        """Raise WinaError with each distinct reason once, if any run failed."""
        if self.failures:
            reasons = " ".join(dict.fromkeys(failure.error for failure in self.failures))
            raise WinaError(f"{len(self.failures)} of {self.runs} runs failed: {reasons}")


@checked
def run_study(
    study: str | PathLike[str] | StudySpec,
    *,
    roles: Mapping[str, str | PathLike[str]] | None = None,
    data_folder: str | PathLike[str] | None = None,
    engines: Annotated[int, Field(ge=0)] = 1,
    recompute: bool = False,
    trust_task_code: bool = False,
    confirm_run_unsafe_code: bool = False,
    database: str | PathLike[str] | None = None,
) -> "pd.DataFrame":
    """Compute the missing measurements of a study, as `wina study run` does.

    Parameters
    ----------
    study : str, path or wina_core.specs.studies.StudySpec
        Its name in the gallery, a TOML or JSON file, or a spec.
    roles : mapping of str to str or path, optional
        Folder or Hugging Face id of the model for each role, this once.
    data_folder : str or path, optional
        Local data of the tasks.
    engines : int
        Processes that share the runs: 1 for this one, 0 for one on each GPU. More than one need a script that begins
        with ``if __name__ == "__main__":``.
    recompute : bool
        Compute everything again, stored results included.
    trust_task_code : bool
        Consent, this once, to the code that task folders ask for: Python functions, metrics and readers of data. It
        runs with all of your rights.
    confirm_run_unsafe_code : bool
        Consent, this once, to running programs that the model writes (humaneval, mbpp), each in a sandbox.
    database : str or path, optional
        SQLite file or PostgreSQL address; by default the one of the window and the command line.

    Returns
    -------
    pandas.DataFrame
        The study's metrics, as `query_results` returns them. Latencies are in its table "latency".

    Raises
    ------
    WinaError
        For an unknown study, a role without a model, or runs that failed; the results of other runs are stored.

    Examples
    --------
    >>> import wina_core
    >>> found = wina_core.run_study("demo-gflops")
    >>> sorted(found.method.unique())
    ['dense', 'wina (as released)']
    """
    if isinstance(study, StudySpec):
        spec = study
    else:
        spec = open_study(fspath(study), roles or {}, None if data_folder is None else fspath(data_folder))
    options = LaunchOptions(
        recompute=recompute, trust_task_code=trust_task_code, run_model_code=confirm_run_unsafe_code
    )
    with in_job() as models, Store(None if database is None else fspath(database)) as store:
        computed = compute_study(spec, options, store, engines=engines, session=models, reporting=library_reporter)
        if spec.latency:
            sweep_products(spec.latency, recompute, store, reporting=library_reporter)
        # A copy, since the store shares its frames between calls.
        metrics = store.metrics(MetricFilter(study=computed.study)).copy()
    computed.check()
    return metrics


def open_study(name: str, roles: Mapping[str, str | PathLike[str]], data_folder: str | None = None) -> StudySpec:
    """Open a study by name or file, with models for its roles: the given ones, then the saved ones.

    `data_folder` replaces the tasks' data. Raises WinaError for an unknown study or role.
    """
    study = with_data_folder(find_study(name), data_folder)
    once = {role: absolute(fspath(location)) for role, location in roles.items() if fspath(location)}
    return bind(rebind(study, once), load_roles() if study.roles else {})


def compute_study(
    study: StudySpec,
    options: LaunchOptions,
    store: Store,
    *,
    confirm: Callable[[Job], object] | None = None,
    engines: int | None = None,
    session: "Session | None" = None,
    reporting: Reporting = terminal_reporter,
) -> Computed:
    """Compute and store a study's missing measurements; not those of its sweep.

    Parameters
    ----------
    confirm : callable, optional
        Called with the job before it begins, if any measurement is missing; by default, what the job computes first is
        printed.
    engines : int, optional
        Processes that share the runs; 0 for one on each GPU. None for this process alone.
    session : Session, optional
        Models that one engine computes with.
    """
    launched = launch_study(study, options, store)
    computed = Computed(launched.study, len({run.label.run for run in launched.runs}))
    if launched.job is None:
        return computed
    if confirm is None:
        announce_products(launched.job, options.machines)
    else:
        confirm(launched.job)
    state = run_recorded(
        launched.job, store, machines=options.machines, engines=engines, session=session, reporting=reporting
    )
    return replace(computed, failures=tuple(state.failures.values()))


def launch_study(study: StudySpec, options: LaunchOptions, store: Store) -> Launched:
    """Launch a study, and print how much of it is stored."""
    launched = launch(study, options, store)
    if launched.remark:
        print(f"{study.name}: {launched.remark}", file=sys.stderr)
    return launched


# ---- sweeps that print each timed point on stderr when it is measured ------------------------------------------------


def sweep_products(
    spec: LatencySpec,
    recompute: bool,
    store: Store,
    *,
    machines: tuple[str, ...] = (),
    reporting: Reporting = terminal_reporter,
) -> tuple[SweepReport, list[LatencyRow]]:
    """Time the points of a sweep that are not stored for this machine, or all with `recompute`; return all points."""
    job = LatencyJob(spec=spec, stored={} if recompute else store.measured_points(spec.hashes()))
    report = time_points(job, store, machines=machines, reporting=reporting)
    return report, store.latency_rows(report.environment.key, report.points)


def time_points(
    job: LatencyJob | DecodeJob,
    store: Store,
    *,
    machines: tuple[str, ...] = (),
    reporting: Reporting = terminal_reporter,
) -> SweepReport:
    """Run a sweep and record its points."""
    report = run_recorded(job, store, print_point, machines=machines, reporting=reporting).result
    assert isinstance(report, SweepReport)
    return report


def print_point(event: Event) -> None:
    """Print a timed point with p10 and p90; other events print nothing."""
    if isinstance(event, Measured):
        record = event.record
        text = _decoding(record) if isinstance(record, DecodeRecord) else _product(record)
        print(text, file=sys.stderr)


def _decoding(record: DecodeRecord) -> str:
    speed = _speed(record.tokens_per_second, record.p10, record.p90)
    dense = _speed(record.dense_tokens_per_second, record.dense_p10, record.dense_p90)
    counts = f"{record.turns} repetitions of {record.timed_tokens} tokens"
    return f"{record.point.label}: {speed}; dense {dense}; {counts}"


def _product(record: LatencyRecord) -> str:
    return f"{record.point.label}: {record.median_ms:.4g} ms ({_span(record.p10_ms, record.p90_ms)})"


def _speed(median: float, p10: float | None, p90: float | None) -> str:
    span = "" if p10 is None or p90 is None else f" ({_span(p10, p90)})"
    return f"{median:.4g} tokens/s{span}"


def _span(p10: float, p90: float) -> str:
    """Return p10 and p90, with the disagreement of the runs if it is too large."""
    apart = "" if p90 / p10 <= STEADY else f", runs disagree by {percent_apart(p90 / p10)}"
    return f"p10 {p10:.4g}, p90 {p90:.4g}{apart}"
