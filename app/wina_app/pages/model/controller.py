"""Controller of the Model page: check a location, describe its model, load it, fill the workspace."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pydantic import ValidationError
from PySide6.QtCore import QObject

from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.model.page import ModelPage
from wina_app.services.workbench import Workbench
from wina_app.services.workspace import name_of
from wina_app.shared.page_job import PageJob
from wina_core.errors import WinaError
from wina_core.jobs import InspectJob
from wina_core.model_info.small_models import SMALL_MODELS, Origin, fetched_from
from wina_core.records import ModelSummary
from wina_core.specs import ROTATION_MODES, DType, MethodSpec, ModelSource, Quantization
from wina_core.specs.plans import UniformSparsity


class ModelController(QObject):
    """Loader of one model at a time; opening another cancels the first."""

    def __init__(self, workbench: Workbench, view: ModelPage) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._job = PageJob(workbench, view, "Loading was cancelled.")
        self._job.changed.connect(self._show_loading)
        self._job.finished.connect(self._on_loaded)
        self._request = 0
        self._fetches: dict[str, _Fetch] = {}
        """Fetched models by their jobs."""
        workbench.jobs.changed.connect(self._on_job_changed)
        workbench.jobs.ended.connect(self._on_job_ended)
        workbench.jobs.requeued.connect(self._on_requeued)
        view.open_requested.connect(self.open)
        view.progress.cancel_requested.connect(self._job.cancel)
        view.progress.pause_requested.connect(self._job.pause)
        view.progress.resume_requested.connect(self._job.resume)
        view.begin.cancel_requested.connect(self.cancel_fetch)
        view.forget_requested.connect(self.forget)
        view.cost.changed.connect(self.price)
        view.show_recent(workbench.settings.recent)
        for name in SMALL_MODELS:
            self._ask_origin(name)

    @property
    def was_asked(self) -> bool:
        """Return whether any model was requested, loaded or not."""
        return self._request > 0

    def open(self, location: str, dtype: DType = "auto", quantization: Quantization = "none") -> None:
        """Open a folder, a GGUF file, a hub id, "demo", or a small model, which is fetched first if the user agrees."""
        self._view.clear_message()
        location = location.strip()
        self._view.show_location(location)
        try:
            source = ModelSource(location=location, dtype=dtype, quantization=quantization)
        except ValidationError:
            self._view.show_error("No model is named; choose a folder or a GGUF file, or type a Hugging Face id.")
            return
        self._request += 1
        request = self._request
        if location in SMALL_MODELS:
            self._ask_origin(location, lambda origin: self._open_small(_Fetch(source, request), origin))
        else:
            self._describe(request, source)

    def _describe(self, request: int, source: ModelSource) -> None:
        self._workbench.workspace.set_loading(name_of(source.location))
        self._workbench.checks.ask(
            partial(_check, source),
            lambda checked: self._load(request, checked),
            lambda text: self._refuse(request, text),
        )

    def _ask_origin(self, name: str, then: Callable[[Origin | None], object] = lambda _: None) -> None:
        """Show where a small model came from, and pass it on."""

        def answer(origin: Origin | None) -> None:
            self._view.show_origin(name, origin)
            then(origin)

        self._workbench.checks.ask(partial(_origin, name), answer, self._view.show_error)

    def _open_small(self, fetch: "_Fetch", origin: Origin | None) -> None:
        """Open a small model; fetch it first, with the user's consent, if it is not here."""
        if fetch.request != self._request:
            return
        if origin is not None:
            self._describe(fetch.request, fetch.source)
            return
        model = SMALL_MODELS[fetch.source.location]
        if (running := self._running_fetch(model.name)) is not None:
            self._fetches[running] = fetch  # it is opened as was requested last
            return
        if not self._view.ask_licence(model):
            self._restore_location(fetch)
            return
        job_id = self._workbench.fetch_model(model)
        self._fetches[job_id] = fetch
        self._show_fetching(job_id)

    def _restore_location(self, fetch: "_Fetch") -> None:
        """Name the model that is loading or open, instead of one that is not fetched."""
        if fetch.request == self._request:
            source = self._loading or self._workbench.workspace.source
            self._view.show_location(source.location if source else "")

    @property
    def _loading(self) -> ModelSource | None:
        """Return the model that is being loaded."""
        entry = self._job.entry
        return entry.job.model if entry is not None and isinstance(entry.job, InspectJob) else None

    def cancel_fetch(self, name: str) -> None:
        """Cancel the fetching of a small model."""
        if (job_id := self._running_fetch(name)) is not None:
            self._workbench.cancel(job_id)

    def _running_fetch(self, name: str) -> str | None:
        """Return the job that fetches a small model."""
        jobs = self._workbench.jobs
        fetches = (job_id for job_id, fetch in self._fetches.items() if fetch.source.location == name)
        return next((job_id for job_id in fetches if job_id in jobs and jobs[job_id].active), None)

    def _show_fetching(self, job_id: str) -> None:
        entry = self._workbench.jobs[job_id]
        self._view.show_fetching(self._fetches[job_id].source.location, entry if entry.active else None)

    def _on_fetch_ended(self, job_id: str) -> None:
        fetch, entry = self._fetches[job_id], self._workbench.jobs[job_id]
        self._show_fetching(job_id)
        name = fetch.source.location
        if entry.phase == "failed":
            self._view.show_error(entry.error, retry=partial(self._workbench.retry, job_id))
        elif entry.phase == "cancelled":
            self._restore_location(fetch)
            self._view.show_notice(f"{name} was not fetched.")
        else:
            # Only if no other model was requested meanwhile.
            self._ask_origin(name, lambda origin: self._open_small(fetch, origin) if origin else None)

    def cancel(self) -> None:
        """Cancel loading; the open model stays."""
        self._job.cancel()

    def price(self, method: MethodSpec, sparsity: float, context: int) -> None:
        """Show the cost of a generated token at a uniform sparsity (fraction), for every exact rotation."""
        workspace = self._workbench.workspace
        source, summary = workspace.source, workspace.summary
        if source is None or summary is None:
            return
        if summary.shape is None:
            self._view.cost.show_cost(None, "An earlier version described this model; load it again to see its costs.")
            return
        from wina_core.model_info.cost.cost import costs  # with numpy, which the window can be painted without

        try:
            record = costs(
                summary.shape,
                method,
                UniformSparsity(sparsity=sparsity),
                context=context,
                quantization=source.quantization,
                rotations=[mode for mode in ROTATION_MODES if mode in summary.rotations],
            )
        except WinaError as error:
            self._view.cost.show_cost(None, str(error))
        else:
            self._view.cost.show_cost(record, "")

    def forget(self, location: str) -> None:
        self._workbench.settings.forget_recent(location)
        self._view.show_recent(self._workbench.settings.recent)

    def _load(self, request: int, source: ModelSource) -> None:
        if request != self._request:  # another model was requested meanwhile
            return
        name = name_of(source.location)
        self._job.start(InspectJob(model=source), f"Load {name}")

    def _on_requeued(self, job_id: str) -> None:
        if job_id in self._fetches:
            self._view.clear_message()
            self._show_fetching(job_id)

    def _show_loading(self) -> None:
        entry, source, active = self._job.entry, self._loading, self._workbench.jobs.active
        self._workbench.workspace.set_loading(name_of(source.location) if source else "")
        if entry is None:
            self._view.show_loading(None)
        else:
            waits = entry.phase == "queued" and active[0] is not entry
            self._view.show_loading(entry, active[0].title if waits else "")

    def _refuse(self, request: int, text: str) -> None:
        """Show why a model cannot be opened; the open one stays, and one that is being loaded."""
        if request == self._request:
            self._workbench.workspace.set_loading(name_of(self._loading.location) if self._loading else "")
            self._view.show_error(text)

    def _on_job_changed(self, job_id: str) -> None:
        if job_id in self._fetches:
            self._show_fetching(job_id)

    def _on_job_ended(self, job_id: str) -> None:
        if job_id in self._fetches:
            self._on_fetch_ended(job_id)
        elif self._job.entry is not None:
            self._show_loading()  # it may have waited for that one

    def _on_loaded(self, entry: JobEntry) -> None:
        if isinstance(entry.job, InspectJob) and isinstance(entry.result, ModelSummary):
            source = entry.job.model
            self._workbench.workspace.set_model(source, entry.result)
            self._workbench.settings.add_recent(source.location)
            self._view.show_recent(self._workbench.settings.recent)
            self._view.show_summary(name_of(source.location), source, entry.result)


@dataclass(frozen=True)
class _Fetch:
    """A small model that is fetched to be opened."""

    source: ModelSource
    """Its location is the model's name."""
    request: int


def _origin(name: str) -> Origin | None:
    """Return where a small model came from; None if it is not here, or damaged."""
    try:
        return fetched_from(SMALL_MODELS[name])
    except WinaError:
        return None


def _check(source: ModelSource) -> ModelSource:
    from wina_core.model_info.cost.describe import check_source  # which the window can be painted without

    return check_source(source)[0]
