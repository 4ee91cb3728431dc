"""Drives one engine process over its standard streams. Light: no Qt, no torch.

client = EngineClient(print)
client.send(Submit(job_id="1", job=InspectJob(model=ModelSource(location="demo"))))
...
client.stop()
"""

import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from wina_core.engine.client.engine_log import EngineLog, default_log_file
from wina_core.engine.protocol import (
    EVENTS,
    Accepted,
    Cancel,
    Done,
    Event,
    Failed,
    InspectJob,
    Log,
    Move,
    Pause,
    Ready,
    Request,
    Resume,
    RunFailed,
    RunFinished,
    RunStarted,
    Shutdown,
    Submit,
    encode,
)
from wina_core.engine.protocol.queue_order import put_ahead

CANCEL_GRACE_SECONDS = 10.0
"""How long a cancelled job may take to reach its next batch before the engine is terminated under it."""
LOADING_GRACE_SECONDS = 1.5
"""The same for one that loads a model to look at it: nothing of it is lost, and a single weight can take minutes to
read from a slow disk."""
SHUTDOWN_GRACE_SECONDS = 4.0
"""How long the engine may take to exit by itself; its own watchdog ends it after `server.EXIT_GRACE_SECONDS`."""
TERMINATE_GRACE_SECONDS = 3.0
"""How long a terminated engine may take to die before it is killed."""


@dataclass
class _Job:
    """A job that has not ended."""

    submit: Submit
    engine: "_Engine | None" = None
    """The one that it was sent to last."""
    started: bool = False
    cancelled: bool = False
    paused: bool = False
    run: str | None = None
    """The run that is being computed."""


@dataclass
class _Engine:
    """One engine process and the threads that serve it."""

    process: "subprocess.Popen[bytes]"
    log: EngineLog
    outbox: "queue.SimpleQueue[str | None]" = field(default_factory=queue.SimpleQueue)
    ready: bool = False
    began: bool = False
    """It has started a job. One that dies without would do so again with the same jobs."""
    stopping: bool = False
    job: str | None = None
    """The one that it does."""
    watcher: threading.Thread | None = None


class EngineClient:
    """Sends requests and hands every event to `on_event`, one at a time, mostly from a thread of its own.

    Every submitted job ends with exactly one Done or Failed, whatever becomes of the engine: when it dies, the job it
    was doing fails with the tail of the log, and the jobs behind it go to a new engine. An engine that dies before it
    began any of its jobs fails them all.

    `command` starts an engine that speaks on its standard streams, this machine's by default; it may as well be
    ["ssh", "host", "wina", "engine"]. No method waits for the engine, except `stop`.
    """

    def __init__(
        self,
        on_event: Callable[[Event], None],
        command: Sequence[str] | None = None,
        log_file: Path | None = None,
        cancel_grace: float = CANCEL_GRACE_SECONDS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` is what the engine's environment variables have beside, or in place of, this process's."""
        self._on_event = on_event
        self._command = list(command or (sys.executable, "-P", "-m", "wina_core.engine"))
        self._log_file = log_file or default_log_file()
        self._cancel_grace = cancel_grace
        self._environment = dict(environment or {})
        self._lock = threading.RLock()
        self._dispatching = threading.RLock()
        self._jobs: dict[str, _Job] = {}
        self._engine: _Engine | None = None
        self._stopped = False

    @property
    def pid(self) -> int | None:
        """The engine's process id, None while there is no engine."""
        with self._lock:
            return self._engine.process.pid if self._engine else None

    def start(self) -> None:
        """Start the engine now rather than with the first job, so that it has imported torch by then."""
        with self._lock:
            self._stopped = False
        self._deliver()

    def send(self, request: Request) -> None:
        """Submit, move, cancel, pause or resume a job, starting the engine if need be; Shutdown is `stop`."""
        match request:
            case Submit():
                with self._lock:
                    self._stopped = False
                    put_ahead(self._jobs, request.job_id, _Job(request), request.ahead_of)
                self._deliver()
            case Move():
                self._move(request)
            case Cancel():
                self._cancel(request)
            case Pause() | Resume():
                self._pause(request)
            case Shutdown():
                self.stop()

    def stop(self) -> None:
        """End the engine: cooperatively, then terminate, then kill. Returns once it is dead, in at most
        SHUTDOWN_GRACE_SECONDS + TERMINATE_GRACE_SECONDS and typically within one batch; its jobs end as cancelled."""
        with self._lock:
            self._stopped = True
            engine = self._engine
            between = list(self._jobs) if engine is None else []  # waiting for an engine that is not to come
            for job_id in between:
                del self._jobs[job_id]
            if engine is not None:
                engine.stopping = True
            for job in self._jobs.values():
                job.cancelled = True
        for job_id in between:
            self._dispatch(Done(job_id=job_id, cancelled=True))
        if engine is None:
            return
        engine.outbox.put(encode(Shutdown()))
        engine.outbox.put(None)
        try:
            engine.process.wait(SHUTDOWN_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            _end(engine.process)
        if engine.watcher is not threading.current_thread() and engine.watcher is not None:
            engine.watcher.join()

    # ---- requests ------------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Put on the engine's desk the jobs that are not there yet; one that cannot be started fails them all."""
        try:
            with self._lock:
                new = self._engine is None
                if self._engine is None:
                    self._engine = self._spawn()
                for job_id, job in self._jobs.items():
                    if job.engine is not self._engine:
                        job.engine = self._engine
                        # A new engine gets all of them, in the order that they are in by now.
                        submit = job.submit.model_copy(update={"ahead_of": ()}) if new else job.submit
                        self._engine.outbox.put(encode(submit))
                        if job.paused:
                            self._engine.outbox.put(encode(Pause(job_id=job_id)))
        except OSError as error:
            message = f"The engine could not be started ({error}); check the installation and the engine's command."
            self._dispatch(Log(level="error", text=message))
            with self._lock:
                lost = list(self._jobs)
                self._jobs.clear()
            for job_id in lost:
                self._dispatch(Failed(job_id=job_id, error=message))

    def _move(self, move: Move) -> None:
        """Here too, for an engine that takes the jobs over."""
        with self._lock:
            job = self._jobs.get(move.job_id)
            if job is None:
                return
            put_ahead(self._jobs, move.job_id, job, move.ahead_of)
            if job.engine is not None and job.engine is self._engine:
                self._engine.outbox.put(encode(move))

    def _cancel(self, cancel: Cancel) -> None:
        with self._lock:
            job = self._jobs.get(cancel.job_id)
            if job is None or job.cancelled:
                return
            job.cancelled = True
            engine = self._engine
            if engine is not None:
                engine.outbox.put(encode(cancel))
                loads = isinstance(job.submit.job, InspectJob)
                grace = min(LOADING_GRACE_SECONDS, self._cancel_grace) if loads else self._cancel_grace
                ladder = threading.Timer(grace, self._climb, args=(engine, job))
                ladder.daemon = True
                ladder.start()
                return
            del self._jobs[cancel.job_id]  # between two engines
        self._dispatch(Done(job_id=cancel.job_id, cancelled=True))

    def _pause(self, request: Pause | Resume) -> None:
        """Remembered too, for an engine that takes the job over."""
        with self._lock:
            job = self._jobs.get(request.job_id)
            if job is None:
                return
            job.paused = isinstance(request, Pause)
            if job.engine is not None and job.engine is self._engine:
                self._engine.outbox.put(encode(request))

    def _climb(self, engine: _Engine, job: _Job) -> None:
        """The job that is being done did not notice its cancellation in time: end its engine."""
        with self._lock:
            if self._jobs.get(job.submit.job_id) is not job or not job.started or self._engine is not engine:
                return
        _end(engine.process)

    # ---- the process ---------------------------------------------------------------------------------------------

    def _spawn(self) -> _Engine:
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | self._environment,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # Windows: no console beside the window
        )
        engine = _Engine(process, EngineLog(self._log_file))
        log = _thread(self._follow_stderr, engine, process.stderr)
        engine.watcher = _thread(self._watch, engine, process.stdout, log)
        # A thread of its own writes: a request may exceed what the pipe holds while the engine is still starting.
        _thread(_write, engine.outbox, process.stdin)
        return engine

    def _watch(self, engine: _Engine, stdout: IO[bytes], log: threading.Thread) -> None:
        """Pass events on until the engine's end, and then see to its jobs."""
        for line in stdout:
            try:
                event = EVENTS.validate_json(line)
            except ValidationError:
                text = f"The engine said something else than an event: {line[:200].decode(errors='replace').strip()}"
                event = Log(level="error", text=text)
            self._note(engine, event)
            self._dispatch(event)
        engine.outbox.put(None)
        code = engine.process.wait()
        log.join(timeout=1.0)  # a grandchild that still holds stderr must not hold us
        engine.log.close()
        self._bury(engine, code)

    def _note(self, engine: _Engine, event: Event) -> None:
        """Keep track of where each job is."""
        with self._lock:
            match event:
                case Ready():
                    engine.ready = True
                case Log():
                    engine.log.add(event.text)
                case Done() | Failed():
                    self._jobs.pop(event.job_id, None)
                    engine.job = None if engine.job == event.job_id else engine.job
                case Accepted() | RunStarted() | RunFinished() | RunFailed() if event.job_id in self._jobs:
                    job = self._jobs[event.job_id]
                    if isinstance(event, Accepted):
                        job.started = job.started or event.started
                        engine.began = engine.began or event.started
                        engine.job = event.job_id if event.started else engine.job
                    else:
                        job.run = event.run if isinstance(event, RunStarted) else None
                case _:
                    pass

    def _bury(self, engine: _Engine, code: int) -> None:
        ends: list[Event] = []
        with self._lock:
            self._engine = None
            for job_id, job in list(self._jobs.items()):
                if job.cancelled or engine.stopping:
                    ends.append(Done(job_id=job_id, cancelled=True))
                elif job.started or not engine.began:
                    ends.append(Failed(job_id=job_id, error=_cause(engine, code), detail=engine.log.tail, run=job.run))
                else:
                    continue
                del self._jobs[job_id]
        if not engine.stopping and not ends:
            ends.append(Log(level="error", text=_cause(engine, code)))
        for event in ends:
            self._dispatch(event)
        with self._lock:
            behind = bool(self._jobs) and not self._stopped
        if behind:
            self._deliver()

    def _dispatch(self, event: Event) -> None:
        try:
            with self._dispatching:
                self._on_event(event)
        except Exception:  # the callback's defect must not cost the jobs that follow
            logging.getLogger(__name__).exception("An event could not be handled: %r", event)

    def _follow_stderr(self, engine: _Engine, stderr: IO[bytes]) -> None:
        """Keep what the engine's libraries print beside its events, and pass it on as the running job's."""
        if engine.log.trouble:
            self._dispatch(Log(level="warning", text=engine.log.trouble))
        for line in stderr:
            text = line.decode(errors="replace").rstrip().rpartition("\r")[2]
            if text:
                engine.log.add(text)
                self._dispatch(Log(level="debug", text=text, job_id=engine.job))


def _thread(target: Callable[..., None], *args: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, name=f"engine client {target.__name__}", daemon=True)
    thread.start()
    return thread


def _write(outbox: "queue.SimpleQueue[str | None]", stdin: IO[bytes]) -> None:
    """Pass requests on until None comes; the engine takes the end of its stdin for the end of its client."""
    with suppress(OSError):  # the engine died: the watcher sees to it
        while (line := outbox.get()) is not None:
            stdin.write(line.encode())
            stdin.flush()
    with suppress(OSError):
        stdin.close()


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(TERMINATE_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _cause(engine: _Engine, code: int) -> str:
    """One sentence on why the engine is gone."""
    if code == -signal.SIGTERM or code == -getattr(signal, "SIGKILL", 9):
        how = "was killed from outside, perhaps because memory ran out"
    elif not engine.ready:
        return f"The engine could not start (exit code {code}); its log tells why, and setting up again may mend it."
    else:
        how = f"stopped with exit code {code}"
        if code < 0:
            how = f"crashed with signal {-code} ({signal.strsignal(-code)})"
    return f"The engine {how}; finished results are kept, and starting the job again computes what is missing."
