"""Stand-ins for the engine and for the store's thread, both answering on the calling thread."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QProcess, Signal
from wina_app.services.settings import Settings
from wina_app.services.side_process import SideProcess
from wina_app.services.workbench import Workbench

from tests.wina_app.stored_runs import SOURCE, DirectStore, summary
from wina_core.errors import WinaError
from wina_core.jobs import Cancel, Done, Event, Ready, Request, Result, Started, Submit
from wina_core.records import Environment, ModelSummary
from wina_core.specs import ModelSource
from wina_core.store import Store

ENVIRONMENT = Environment(device="cpu", hardware="a test", versions={"python": "3"})
TIMING = ENVIRONMENT.model_copy(update={"hardware": "a test, 1 of 2 threads"})


class FakeEngine(QObject):
    """Has the interface of `EngineThread`; remembers what it was sent."""

    received = Signal(object)
    finished = Signal()
    pid = 1

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Request] = []

    def start(self) -> None:
        """Ready at once."""
        self.received.emit(Ready(pid=1, environment=ENVIRONMENT, timing=(TIMING,)))

    def send(self, request: Request) -> None:
        """Remember."""
        self.sent.append(request)

    def finish(self) -> None:
        """Gone at once."""
        self.finished.emit()

    @property
    def submitted(self) -> list[Submit]:
        """The jobs it was given."""
        return [request for request in self.sent if isinstance(request, Submit)]

    @property
    def last(self) -> Submit:
        """The job it was given last."""
        return self.submitted[-1]

    def answer(self, *events: Callable[[str], Event]) -> None:
        """Start the last job, then emit what the functions make of its id."""
        job_id = self.last.job_id
        self.received.emit(Started(job_id=job_id))
        for make in events:
            self.received.emit(make(job_id))


class FakeClient:
    """Has the interface of `EngineClient`: takes every job, finishes none by itself, ends them when cancelled."""

    available = True

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self.pid: int | None = None
        self._emit = on_event
        self._jobs: list[str] = []

    def start(self) -> None:
        """Ready at once."""
        self.pid = 1
        self._emit(Ready(pid=1, environment=ENVIRONMENT, timing=(TIMING,)))

    def send(self, request: Request) -> None:
        """Accept or cancel."""
        if isinstance(request, Submit):
            self._jobs.append(request.job_id)
            self._emit(Started(job_id=request.job_id))
        elif isinstance(request, Cancel):
            self._end(request.job_id)

    def stop(self) -> None:
        """Cancel what is left."""
        for job_id in list(self._jobs):
            self._end(job_id)
        self.pid = None

    def _end(self, job_id: str) -> None:
        self._jobs.remove(job_id)
        self._emit(Done(job_id=job_id, cancelled=True))


class FakeStoreThread(DirectStore):
    """All of the interface of `StoreThread`, on the calling thread, over a real database."""

    failed = Signal(str)
    finished = Signal()

    def start(self) -> None:
        """It is open already."""
        self.opened.emit(self.store)

    def finish(self) -> None:
        """Close."""
        self.store.close()
        self.finished.emit()


class DirectChecks:
    """Has the interface of `Checks`, on the calling thread."""

    def ask(
        self, question: Callable[[], object], answer: Callable[[Any], None], refused: Callable[[str], None]
    ) -> None:
        """Answer at once."""
        try:
            found = question()
        except WinaError as error:
            refused(str(error))
        else:
            answer(found)


def make_workbench(folder: Path) -> tuple[Workbench, FakeEngine, FakeStoreThread]:
    """A started workbench over a database in the folder."""
    engine = FakeEngine()
    store = FakeStoreThread(Store(f"sqlite:///{folder / 'results.sqlite'}"))
    workbench = Workbench(engine, store, Settings(folder / "window.json"), checks=DirectChecks())
    workbench.start()
    return workbench, engine, store


def load(workbench: Workbench, source: ModelSource = SOURCE, model: ModelSummary | None = None) -> None:
    """Put a loaded model into the workspace."""
    workbench.workspace.set_model(source, model or summary())


def result(value: Any) -> Callable[[str], Event]:
    """For `FakeEngine.answer`."""
    return lambda job_id: Result(job_id=job_id, value=value)


def done(cancelled: bool = False) -> Callable[[str], Event]:
    """For `FakeEngine.answer`."""
    return lambda job_id: Done(job_id=job_id, cancelled=cancelled)


class _Method:
    """A method of a recorded view, or one of its parts, whose methods are remembered likewise."""

    def __init__(self, recorded: "Recorded", name: str) -> None:
        self._recorded, self._name = recorded, name

    def __getattr__(self, name: str) -> "_Method":
        if name.startswith("_"):
            raise AttributeError(name)
        return _Method(self._recorded, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._recorded._calls.append((self._name, args, kwargs))
        return self._recorded._returns.get(self._name)


class Recorded:
    """A view that only remembers: `calls("show_error")` has the arguments of every call of that name. It has the
    methods of `view`, and the parts that its source assigns, if one is given."""

    def __init__(self, view: type | None = None, /, **returns: Any) -> None:
        self._view, self._returns = view, returns
        self._calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> _Method:
        view = self._view
        if name.startswith("_") or not (
            view is None or hasattr(view, name) or f"self.{name} = " in inspect.getsource(view)
        ):
            raise AttributeError(name)
        return _Method(self, name)

    def returns(self, **values: Any) -> None:
        """What methods of these names return from now on."""
        self._returns |= values

    def calls(self, name: str) -> list[Any]:
        """First argument of every call of a method, or its keywords when it has no other."""
        return [args[0] if args else kwargs for called, args, kwargs in self._calls if called == name]

    def last(self, name: str) -> Any:
        """Of the last call."""
        return self.calls(name)[-1]

    def named(self, name: str) -> dict[str, Any]:
        """Keywords of the last call."""
        return [kwargs for called, _, kwargs in self._calls if called == name][-1]


def is_running(process: SideProcess) -> bool:
    """Whether there is a process beside the window's."""
    return process.findChild(QProcess).processId() > 0
