"""The engine's own loop: requests in, one job at a time, events out, and never an orphan.

The main thread computes; a reader thread takes requests, so that it sees at once a cancellation while a job runs, and
the end of the requests, which means that the client is gone.
"""

import faulthandler
import gc
import json
import logging
import os
import signal
import sys
import threading
import traceback
from functools import partial
from typing import Any, BinaryIO

from pydantic import ValidationError

from wina_core.compute import pausable_clock
from wina_core.compute.importing import without_collections
from wina_core.compute.reporter import Level, Reporter
from wina_core.errors import Cancelled, WinaError, explain, ran_out_of_memory, unforeseen
from wina_core.jobs import (
    REQUESTS,
    Cancel,
    Done,
    Event,
    Failed,
    Held,
    Log,
    Pause,
    Progress,
    Ready,
    Refined,
    Resume,
    Shutdown,
    Started,
    Submit,
    encode,
)
from wina_core.jobs.progress import Stage, StageEta, Throttle
from wina_core.jobs.streams import take_standard_streams
from wina_core.records import RefinementStep

EXIT_GRACE_SECONDS = 2.0
"""Time for a job to notice that the engine is to exit, before the process is ended under it."""


def serve() -> int:
    """Serve the client on the standard streams until it asks to shut down or is gone; return the exit code.

    SIGTERM ends the job at its next batch, and then this process without a word: its client takes it for killed.
    WINA_ENGINE_NICE lowers its priority.
    """
    os.environ.setdefault("TQDM_DISABLE", "1")  # progress goes over the wire, not as the libraries' bars into the log
    if hasattr(os, "nice"):
        os.nice(int(os.environ.get("WINA_ENGINE_NICE", "0")))
    requests, wire = take_standard_streams()
    server = Server(wire)
    _catch_signals(server)
    faulthandler.enable()  # a crash in native code prints its stack to stderr
    logging.basicConfig(level=logging.WARNING, handlers=[_WireHandler(server)])
    logging.captureWarnings(True)
    threading.Thread(target=server.read, args=(requests,), name="requests", daemon=True).start()
    # Only torch knows the device, so Ready follows its import. Nobody waits for that: the thread above takes
    # requests from the start.
    with without_collections():
        from wina_core.compute.latency.device import timing_environments
        from wina_core.compute.session.environment import environment, kernels_notice

    timing, notice = timing_environments(), kernels_notice()
    server.emit(Ready(pid=os.getpid(), environment=environment(), timing=timing, notice=notice))
    server.work()
    if server.terminated:
        _die()
    return 0


def _catch_signals(server: "Server") -> None:
    """Hand SIGTERM to the server, and leave what a terminal sends to its whole group to the client."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "win32":  # Windows ends processes without signals
        return
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Python writes to the wakeup descriptor only for signals that have a handler.
    signal.signal(signal.SIGTERM, lambda *_: None)
    # A thread reads the number: the main thread would run a handler only after the matrix product that it is in.
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)

    def wait() -> None:
        os.read(reading, 1)
        server.terminate()

    threading.Thread(target=wait, name="signals", daemon=True).start()


def _die() -> None:
    """End this process as a killed one, from any thread."""
    sys.stderr.flush()
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


class Server:
    """The one job of an engine process. Any thread may call `emit` and `read`, the main one alone `work`.

    The client holds the queue; a second job is refused. A paused job stops at its next batch and keeps all it has in
    memory.
    """

    def __init__(self, wire: BinaryIO) -> None:
        self._wire = wire
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._job: Submit | None = None
        self._begun = False
        self._paused = False
        self._holding = False
        self._cancel = threading.Event()
        self._closing = False
        self.terminated = False
        """True after SIGTERM."""

    @property
    def running(self) -> str | None:
        # A copy: another thread may end the job between the two reads.
        job = self._job
        return job.job_id if job is not None and self._begun else None

    # ---- events out ----------------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Put one event on the wire; with nobody left to read it, end the process."""
        try:
            with self._writing:
                self._wire.write(encode(event).encode())
                self._wire.flush()
        except OSError:
            os._exit(1)  # sys.exit would end no more than the calling thread

    # ---- requests in ---------------------------------------------------------------------------------------------

    def read(self, requests: BinaryIO) -> None:
        """Take requests until they end, which closes the engine; no request, however malformed, ends this sooner."""
        try:
            for line in requests:
                if line.strip():
                    try:
                        self._take(line)
                    except Exception:
                        logging.getLogger(__name__).exception("A request could not be taken")
        finally:
            self.close()

    def _take(self, line: bytes) -> None:
        try:
            request = REQUESTS.validate_json(line)
        except ValidationError as error:
            self._refuse(line, explain(error))
            return
        except RecursionError:
            self._refuse(line, "it is nested too deeply")
            return
        match request:
            case Submit():
                self._submit(request)
            case Cancel() | Pause() | Resume():
                self._steer(request)
            case Shutdown():
                self.close()

    def _refuse(self, line: bytes, reason: str) -> None:
        """Fail the job that a malformed request names, so that nobody waits for it; log where it names none."""
        message = f"The engine does not understand this request ({reason})"
        try:
            job_id = json.loads(line)["job_id"]
        except (ValueError, TypeError, KeyError, RecursionError):
            job_id = None
        job = self._job
        if isinstance(job_id, str) and (job is None or job.job_id != job_id):
            job_id = job_id.encode(errors="replace").decode()  # half a surrogate pair cannot be sent
            self.emit(Failed(job_id=job_id, error=message))
        else:
            self.emit(Log(level="error", text=f"{message}: {line[:200].decode(errors='replace').strip()}"))

    def _submit(self, submit: Submit) -> None:
        with self._changed:
            if self._job is None:
                self._job, self._begun, self._paused = submit, False, False
                self._cancel.clear()
                self._changed.notify()
                return
            same = self._job.job_id == submit.job_id
        message = "The engine has a job already; submit the next one after Done or Failed."
        if same:  # a Failed would end the job that is being computed
            self.emit(Log(level="error", text=message, job_id=submit.job_id))
        else:
            self.emit(Failed(job_id=submit.job_id, error=message))

    def _steer(self, request: Cancel | Pause | Resume) -> None:
        """Cancel, pause or resume the job; a request for another job came after its end and is ignored."""
        with self._changed:
            if self._job is None or self._job.job_id != request.job_id:
                return
            match request:
                case Cancel() if self._begun:
                    self._cancel.set()
                case Cancel():
                    self._drop()
                case Pause() if not self._paused:
                    self._paused = True
                    if self._holding:  # else `hold` reports it
                        self.emit(Held(job_id=request.job_id, held=True))
                case Resume() if self._paused:
                    self._paused = False
                    self.emit(Held(job_id=request.job_id, held=False))
            self._changed.notify()

    def _drop(self) -> None:
        """End the job that has not begun, if there is one, as cancelled."""
        if self._job is not None and not self._begun:
            self.emit(Done(job_id=self._job.job_id, cancelled=True))
            self._job = None

    def hold(self, job_id: str) -> None:
        """Wait while the running job is paused: until it is resumed or cancelled, or the engine closes."""
        if not self._paused:  # without the lock: this runs before every matrix product
            return
        with self._changed:
            if self._paused and not self._cancel.is_set():
                self.emit(Held(job_id=job_id, held=True))
                self._holding = True
                with pausable_clock.paused():
                    self._changed.wait_for(lambda: not self._paused or self._cancel.is_set())
                self._holding = False

    def terminate(self) -> None:
        """Close after SIGTERM; end the process now if its job has not noticed an earlier cancellation."""
        if self._cancel.is_set() and self.running is not None:
            _die()
        self.terminated = True
        self.close()

    def close(self) -> None:
        """Cancel the job, and end the process soon even if the job does not notice."""
        # Before the lock: a thread that emits under it may hang on a full pipe.
        watchdog = threading.Timer(EXIT_GRACE_SECONDS, _die if self.terminated else partial(os._exit, 1))
        watchdog.daemon = True
        watchdog.start()
        with self._changed:
            self._closing = True
            self._cancel.set()
            if not self.terminated:  # else the client shall see a killed engine, and give the job to another one
                self._drop()
            self._changed.notify()

    # ---- work ----------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Compute one job after the other until the engine closes.

        An accelerator's fault leaves this process unusable: it ends, and the client starts another one for its next
        job.
        """
        with without_collections():
            from torch import AcceleratorError

            from wina_core.compute.memory import release_memory
            from wina_core.compute.session.model_session import Session
            from wina_core.engine.server.run_job import run_job
        gc.freeze()  # the libraries live as long as this process: collections after jobs need not go through them
        session = Session()
        while (submit := self._next()) is not None:
            job_id = submit.job_id
            self.emit(Started(job_id=job_id))
            ended: Done | Failed = Done(job_id=job_id)
            usable, exhausted = True, False
            try:
                reporter = WireReporter(self, job_id, self._cancel)
                reporter.check()
                run_job(submit.job, session, self.emit, reporter, job_id)
            except Cancelled:
                ended = Done(job_id=job_id, cancelled=True)
            except WinaError as error:
                ended = Failed(job_id=job_id, error=str(error))
            except Exception as error:
                logging.getLogger(__name__).exception("Job %s failed", job_id)
                ended = Failed(job_id=job_id, error=unforeseen(error), detail=traceback.format_exc())
                exhausted = ran_out_of_memory(error)
                usable = exhausted or not isinstance(error, AcceleratorError)
            if exhausted:  # here, since the traceback of the error holds the model until its block ends
                session.clear()
                release_memory()
            # Without a last event, the client takes the engine for killed, and its runs go to another one.
            if self.terminated:
                return
            with self._changed:
                # Before the event: the client may answer it with the next job at once.
                self._job = None
            self.emit(ended)
            if not usable:
                return

    def _next(self) -> Submit | None:
        """Wait for a job and begin it; None once the engine is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._job is not None)
            self._begun = not self._closing
            return self._job if self._begun else None


class WireReporter(Reporter):
    """Reporter of the engine's job: throttled progress with its ETA on the wire, cancelling and pausing.

    The client estimates an evaluation, whose other engines it knows.
    """

    def __init__(self, server: Server, job_id: str, cancel: threading.Event) -> None:
        self._server = server
        self._job_id = job_id
        self._cancel = cancel
        self._eta = StageEta()
        self._throttle = Throttle()

    def stage(self, name: Stage) -> None:
        self._eta.begin(name)

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        now = pausable_clock.now()
        eta = self._eta.update(now, done, total)
        if self._throttle.passes(now, done, total):
            self._server.emit(
                Progress(
                    job_id=self._job_id,
                    done=done,
                    total=total,
                    unit=unit,
                    eta_seconds=eta,
                    metric=metric,
                    stage=self._eta.stage,
                )
            )

    def refined(self, step: RefinementStep) -> None:
        self._server.emit(Refined(job_id=self._job_id, step=step))

    def log(self, level: Level, text: str) -> None:
        self._server.emit(Log(level=level, text=text, job_id=self._job_id))

    def check(self) -> None:
        self._server.hold(self._job_id)
        if self._cancel.is_set():
            raise Cancelled


class _WireHandler(logging.Handler):
    """Handler that sends the libraries' log records and warnings to the client's log."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def emit(self, record: Any) -> None:
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        self._server.emit(Log(level=level, text=self.format(record), job_id=self._server.running))
