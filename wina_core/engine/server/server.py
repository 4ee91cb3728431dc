"""The engine's own loop: requests in, one job at a time, events out, and never an orphan.

The main thread computes; a reader thread takes requests, so that a cancel is seen while a job runs and the end of the
requests, which means that the client is gone, is seen at once.
"""

import faulthandler
import json
import logging
import os
import signal
import sys
import threading
import traceback
from typing import Any, BinaryIO

from pydantic import ValidationError

from wina_core.compute import pausable_clock
from wina_core.compute.reporter import Level
from wina_core.engine.client.progress import Eta, Throttle
from wina_core.engine.protocol import (
    REQUESTS,
    Accepted,
    Cancel,
    Done,
    Event,
    Failed,
    Held,
    Log,
    Move,
    Pause,
    Progress,
    Ready,
    Resume,
    Shutdown,
    Submit,
    encode,
)
from wina_core.engine.protocol.queue_order import put_ahead
from wina_core.errors import Cancelled, WinaError, explain, unforeseen

EXIT_GRACE_SECONDS = 2.0
"""How long a job may take to notice that the engine is to exit, before the process is ended under it."""


def serve() -> int:
    """Serve the client on the standard streams until it says so or goes away; returns the exit code."""
    os.environ.setdefault("TQDM_DISABLE", "1")  # progress goes over the wire, not as the libraries' bars into the log
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the client's terminal is the client's to handle
    requests, wire = _take_standard_streams()
    server = Server(wire)
    faulthandler.enable()  # a crash in native code tells on stderr where it was
    logging.basicConfig(level=logging.WARNING, handlers=[_WireHandler(server)])
    logging.captureWarnings(True)
    threading.Thread(target=server.read, args=(requests,), name="requests", daemon=True).start()
    # torch alone knows the device, so Ready follows its import. Nobody waits for that: requests are taken from the
    # first moment on, by the thread above.
    from wina_core.compute.session.environment import environment

    server.emit(Ready(pid=os.getpid(), environment=environment()))
    server.work()
    return 0


def _take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Private copies of stdin and stdout. The public ones are then pointed at nothing and at stderr, so that no
    library's stray print, not even one from C, gets on the wire, and none that asks a question eats a request."""
    requests = os.fdopen(os.dup(0), "rb")
    wire = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    return requests, wire


class Server:
    """The jobs of one engine process. `emit` and `read` may be called from any thread, `work` from the main one.

    A paused job that runs stops at its next batch and keeps all it has in memory, so no other begins before it has
    ended: one job at a time. One that waits is passed over by those behind it.
    """

    def __init__(self, wire: BinaryIO) -> None:
        self._wire = wire
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._waiting: dict[str, Submit] = {}
        self._running: str | None = None
        self._paused: set[str] = set()
        self._holding = False
        self._cancel = threading.Event()
        self._closing = False

    @property
    def running(self) -> str | None:
        """The job that is being done."""
        return self._running

    # ---- events out ----------------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Put one event on the wire. With nobody left to read it there is nothing more to do: the process ends."""
        try:
            with self._writing:
                self._wire.write(encode(event).encode())
                self._wire.flush()
        except OSError:
            os._exit(1)

    # ---- requests in ---------------------------------------------------------------------------------------------

    def read(self, requests: BinaryIO) -> None:
        """Take requests until they end, which closes the engine; no request, whatever it is, ends this sooner."""
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
            case Move():
                self._move(request)
            case Cancel():
                self._cancel_job(request.job_id)
            case Pause():
                self._pause(request.job_id)
            case Resume():
                self._resume(request.job_id)
            case Shutdown():
                self.close()

    def _refuse(self, line: bytes, reason: str) -> None:
        """A request that is not understood fails its job, where it names one, so that nobody waits for it."""
        message = f"The engine does not understand this request ({reason})"
        try:
            job_id = json.loads(line)["job_id"]
        except (ValueError, TypeError, KeyError, RecursionError):
            job_id = None
        if isinstance(job_id, str) and not self._knows(job_id):
            job_id = job_id.encode(errors="replace").decode()  # half a surrogate pair cannot be sent
            self.emit(Failed(job_id=job_id, error=message))
        else:
            self.emit(Log(level="error", text=f"{message}: {line[:200].decode(errors='replace').strip()}"))

    def _knows(self, job_id: str) -> bool:
        with self._changed:
            return job_id in self._waiting or job_id == self._running

    def _submit(self, submit: Submit) -> None:
        if self._knows(submit.job_id):
            self.emit(Log(level="error", text="A job with this id is there already.", job_id=submit.job_id))
            return
        self.emit(Accepted(job_id=submit.job_id))  # first, so that it precedes whatever `work` says of the job
        with self._changed:
            put_ahead(self._waiting, submit.job_id, submit, submit.ahead_of)
            self._changed.notify()

    def _move(self, move: Move) -> None:
        """One that has begun, or ended, meanwhile stays where it is."""
        with self._changed:
            if (submit := self._waiting.get(move.job_id)) is not None:
                put_ahead(self._waiting, move.job_id, submit, move.ahead_of)

    def _cancel_job(self, job_id: str) -> None:
        """Waiting jobs are dropped, the running one is told; an unknown one has ended meanwhile."""
        with self._changed:
            dropped = self._waiting.pop(job_id, None)
            if dropped:
                self._paused.discard(job_id)
            if job_id == self._running:
                self._cancel.set()
                self._changed.notify()
        if dropped:
            self.emit(Done(job_id=job_id, cancelled=True))

    def _pause(self, job_id: str) -> None:
        """Keep a job from beginning, or from going on after its batch; one that is unknown has ended meanwhile."""
        with self._changed:
            known = job_id in self._waiting or job_id == self._running
            if known and job_id not in self._paused:
                self._paused.add(job_id)
                if job_id != self._running or self._holding:  # else `hold` tells once it does
                    self.emit(Held(job_id=job_id, held=True))

    def _resume(self, job_id: str) -> None:
        with self._changed:
            if job_id in self._paused:
                self._paused.remove(job_id)
                self.emit(Held(job_id=job_id, held=False))
                self._changed.notify()

    def hold(self, job_id: str) -> None:
        """Return at once unless the running job is paused: then once it goes on, is cancelled, or the engine closes."""
        if job_id not in self._paused:  # without the lock: this is asked before every matrix product
            return
        with self._changed:
            if job_id in self._paused and not self._cancel.is_set():
                self.emit(Held(job_id=job_id, held=True))
                self._holding = True
                with pausable_clock.paused():
                    self._changed.wait_for(lambda: job_id not in self._paused or self._cancel.is_set())
                self._holding = False

    def close(self) -> None:
        """Cancel everything, and see to it that the process ends soon even if a job does not notice."""
        watchdog = threading.Timer(EXIT_GRACE_SECONDS, os._exit, args=(1,))
        watchdog.daemon = True
        watchdog.start()
        with self._changed:
            dropped, self._waiting = self._waiting, {}
            self._closing = True
            self._cancel.set()
            self._changed.notify()
        for job_id in dropped:
            self.emit(Done(job_id=job_id, cancelled=True))

    # ---- work ----------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Do the jobs in the order of the queue, until the engine is closed.

        After an accelerator's fault nothing more can be computed in this process: it ends, and the client starts
        another one for the jobs behind.
        """
        from torch import AcceleratorError

        from wina_core.compute.session.model_session import Session
        from wina_core.engine.server.run_job import run_job

        session = Session()
        while (submit := self._next()) is not None:
            job_id = submit.job_id
            self.emit(Accepted(job_id=job_id, started=True))
            ended: Done | Failed = Done(job_id=job_id)
            usable = True
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
                usable = not isinstance(error, AcceleratorError)
            with self._changed:
                self._running = None
                self._paused.discard(job_id)
            self.emit(ended)
            if not usable:
                return

    def _next(self) -> Submit | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._first() is not None)
            if self._closing:
                return None
            self._running = self._first()
            assert self._running is not None  # it was waited for
            self._cancel.clear()
            return self._waiting.pop(self._running)

    def _first(self) -> str | None:
        """The job that is to be done next, if any."""
        return next((job_id for job_id in self._waiting if job_id not in self._paused), None)


class WireReporter:
    """A job's reporter in the engine: throttled progress with its ETA on the wire, cancelling and pausing."""

    def __init__(self, server: Server, job_id: str, cancel: threading.Event) -> None:
        self._server = server
        self._job_id = job_id
        self._cancel = cancel
        self._eta = Eta()
        self._throttle = Throttle()

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        now = pausable_clock.now()
        eta = self._eta.update(now, done, total)
        if self._throttle.passes(now, done, total):
            self._server.emit(
                Progress(job_id=self._job_id, done=done, total=total, unit=unit, eta_seconds=eta, metric=metric)
            )

    def log(self, level: Level, text: str) -> None:
        self._server.emit(Log(level=level, text=text, job_id=self._job_id))

    def check(self) -> None:
        self._server.hold(self._job_id)
        if self._cancel.is_set():
            raise Cancelled


class _WireHandler(logging.Handler):
    """Sends the libraries' log records and warnings to the client's log."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def emit(self, record: Any) -> None:
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        self._server.emit(Log(level=level, text=self.format(record), job_id=self._server.running))
