"""Client of one engine process, over its standard streams.

Three threads of the client serve a process: one writes requests, one follows stderr, and one reads events and decides
what becomes of the job once the process has ended.

client = EngineClient(print)
client.send(Submit(job_id="1", job=InspectJob(model=ModelSource(location="demo"))))
...
client.stop()
"""

import logging
import os
import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from wina_core.engine.client.end_texts import describe_end, describe_start, memory_kills, was_killed
from wina_core.errors import LIBRARY_FAULT, WinaError, without_controls
from wina_core.files.own_command import own_command
from wina_core.files.paths import log_folder
from wina_core.jobs import (
    EVENTS,
    Cancel,
    Done,
    EngineRequest,
    EvaluateJob,
    Event,
    Failed,
    Log,
    Pause,
    Ready,
    Resume,
    RunStarted,
    Shutdown,
    Started,
    Submit,
    encode,
)
from wina_core.jobs.job_state import JobState

CANCEL_GRACE_SECONDS = 10.0
"""Time for a cancelled job to reach its next batch before its engine is terminated."""
SHUTDOWN_GRACE_SECONDS = 4.0
"""Time for the engine to exit by itself; its own watchdog ends it after `server.EXIT_GRACE_SECONDS`."""
TERMINATE_GRACE_SECONDS = 3.0
"""Time for a terminated engine to exit before it is killed."""
LONGEST_LINE = 64 * 2**20
"""Bytes of a line that is read at once: a unit with all of its documents takes some megabytes. A longer one comes in
pieces, which are no events."""
_LONGEST_LOG_LINE = 16 * 2**10
TAIL_LINES = 40
"""Lines reported with a crash."""
LOG_BYTES = 5 * 2**20
"""Size at which the file is set aside when the next engine starts."""

_log = logging.getLogger(__name__)


class EngineLog:
    """The log of one engine process; may be written from several threads."""

    def __init__(self, path: Path) -> None:
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._file: IO[bytes] | None = None
        with suppress(OSError):
            if path.stat().st_size > LOG_BYTES:
                os.replace(path, path.with_suffix(".old.log"))
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            _log.warning("The engine's log file could not be opened: %s", error)

    @property
    def tail(self) -> str:
        return "\n".join(self._tail)

    def add(self, text: str) -> None:
        self._tail.extend(text.splitlines())
        if self._file is not None:
            with suppress(OSError, ValueError):  # a full disk must not stop the engine, which waits to be read
                self._file.write(f"{text}\n".encode())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def default_log_file() -> Path:
    """Return the file in the log folder, the null device where there can be none: the engine works without."""
    try:
        return log_folder() / "engine.log"
    except WinaError as error:
        _log.warning("The engine's log file could not be opened: %s", error)
        return Path(os.devnull)


@dataclass(eq=False)
class _Job:
    """The job that was given to the engine and has not ended."""

    submit: Submit
    state: JobState = field(default_factory=JobState)

    @property
    def begun(self) -> bool:
        """True once its own work has begun: for runs, once the first one has."""
        if isinstance(self.submit.job, EvaluateJob):
            return self.state.reached_runs
        return self.state.started is not None


@dataclass(eq=False)
class Engine:
    """One engine process and its streams."""

    process: "subprocess.Popen[bytes]"
    log: EngineLog
    outbox: "queue.SimpleQueue[str | None]" = field(default_factory=queue.SimpleQueue)
    ready: bool = False
    began: bool = False
    """True once it has started a job. One that exits before would do so again with the same job."""
    memory_kills: int | None = field(default_factory=memory_kills)
    """Processes killed for memory when its present work began."""
    stopping: bool = False
    watcher: threading.Thread | None = None

    def send(self, *requests: EngineRequest) -> None:
        for request in requests:
            self.outbox.put(encode(request))


class EngineClient:
    """Client that sends one job at a time to an engine; `EnginePool` holds the queue.

    `on_event` receives every event, from threads of the client. A job ends with exactly one Done or Failed, whatever
    becomes of the engine: one that dies fails the job that it was computing, with the tail of its log, and the next
    job starts a new engine. `Failed.not_begun` says that a job which the engine had not begun may be sent again.

    `command` starts an engine that speaks on its standard streams, on this machine by default. No method waits for the
    engine, except `stop`.
    """

    def __init__(
        self,
        on_event: Callable[[Event], None],
        command: Sequence[str] | None = None,
        log_file: Path | None = None,
        cancel_grace: float = CANCEL_GRACE_SECONDS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` adds to, or replaces, this process's environment variables."""
        self._on_event = on_event
        self._command = list(command or own_command("wina_core.engine"))
        self._log_file = log_file or default_log_file()
        self._cancel_grace = cancel_grace
        self._environment = dict(environment or {})
        self._lock = threading.RLock()  # reentrant: the client of an engine on Ray starts one under it
        self._job: _Job | None = None
        self._engine: Engine | None = None

    @property
    def available(self) -> bool:
        return True

    @property
    def pid(self) -> int | None:
        with self._lock:
            return self._engine.process.pid if self._engine else None

    def start(self) -> None:
        """Start the engine before the first job, so that it has imported torch by then."""
        self._deliver()

    def send(self, request: EngineRequest) -> None:
        """Submit, cancel, pause or resume the job, starting the engine if need be; Shutdown is `stop`.

        Raises ValueError for a second job.
        """
        match request:
            case Submit():
                with self._lock:
                    if self._job is not None:
                        raise ValueError("An engine holds one job; submit the next one after Done or Failed.")
                    self._job = _Job(request)
                self._deliver(request)
            case Cancel():
                self._cancel(request)
            case Pause() | Resume():
                with self._lock:
                    if self._engine and self._job and self._job.submit.job_id == request.job_id:
                        self._engine.send(request)
            case Shutdown():
                self.stop()

    def stop(self) -> None:
        """End the engine: cooperatively, then terminate, then kill. Return once it is dead.

        This takes at most SHUTDOWN_GRACE_SECONDS + TERMINATE_GRACE_SECONDS and typically one batch; the job ends as
        cancelled.
        """
        with self._lock:
            engine = self._engine
            if engine is None:
                return
            engine.stopping = True
        engine.send(Shutdown())
        engine.outbox.put(None)
        try:
            engine.process.wait(SHUTDOWN_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            _terminate(engine.process)
        # A receiver of events may call this on the watcher's own thread, which cannot join itself.
        if engine.watcher is not threading.current_thread() and engine.watcher is not None:
            engine.watcher.join()

    # ---- requests ------------------------------------------------------------------------------------------------

    def _deliver(self, *requests: EngineRequest) -> None:
        """Send requests, to a new engine if none runs; the job fails if none can be started."""
        try:
            with self._lock:
                if self._engine is None:
                    self._engine = self._spawn()
                self._engine.send(*requests)
        except OSError as error:
            message = f"The engine could not be started ({error}); check the installation and the engine's command."
            with self._lock:
                job, self._job = self._job, None
            self._on_event(Log(level="error", text=message))
            if job is not None:
                self._on_event(Failed(job_id=job.submit.job_id, error=message))

    def _cancel(self, cancel: Cancel) -> None:
        with self._lock:
            job, engine = self._job, self._engine
            if job is None or engine is None or job.submit.job_id != cancel.job_id or job.state.is_cancelled:
                return
            job.state = job.state.cancelling()
            engine.send(cancel)
        # The engine checks for a cancellation between batches. One that computes in native code for longer is ended.
        timer = threading.Timer(self._cancel_grace, self._escalate_cancel, args=(engine, job))
        timer.daemon = True
        timer.start()

    def _escalate_cancel(self, engine: Engine, job: _Job) -> None:
        """End the engine of a job that did not notice its cancellation in time."""
        with self._lock:
            if self._job is not job or self._engine is not engine:
                return
        _terminate(engine.process)

    # ---- the process ---------------------------------------------------------------------------------------------

    def open_process(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | self._environment,
            start_new_session=True,  # Ctrl-C in a terminal reaches its whole group: ssh would drop the connection
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # Windows: no console beside the window
        )

    def _spawn(self) -> Engine:
        process = self.open_process()
        engine = Engine(process, EngineLog(self._log_file))
        log = _thread(self._follow_stderr, engine, process.stderr)
        engine.watcher = _thread(self._watch, engine, process.stdout, log)
        # A thread of its own writes: a request may exceed what the pipe holds while the engine is still starting.
        _thread(_write, engine.outbox, process.stdin)
        return engine

    def read_event(self, line: bytes) -> Event | None:
        """Return the event of a line of an engine; None for a line that is left out."""
        try:
            return EVENTS.validate_json(line)
        except ValidationError:
            text = f"The engine sent a line that is no event: {line[:200].decode(errors='replace').strip()}"
            return Log(level="error", text=text)

    def _watch(self, engine: Engine, stdout: IO[bytes], log: threading.Thread) -> None:
        """Pass events on until the engine exits."""
        for line in _lines(stdout, LONGEST_LINE):
            event = self.read_event(line)
            if event is not None:
                self._note(engine, event)
                self._on_event(event)
        engine.outbox.put(None)
        code = engine.process.wait()
        # The last lines of stderr name the cause that `_on_engine_exit` reports.
        log.join(timeout=1.0)  # a grandchild may keep stderr open for longer
        engine.log.close()
        self._on_engine_exit(engine, code)

    def _note(self, engine: Engine, event: Event) -> None:
        """Keep track of the engine and its job."""
        with self._lock:
            if isinstance(event, Ready):
                engine.ready = True
            elif isinstance(event, Log):
                engine.log.add(event.text)
            elif (job := self._job) is not None and getattr(event, "job_id", None) == job.submit.job_id:
                job.state = job.state.apply(event, time.monotonic())
                if isinstance(event, Started | RunStarted):
                    engine.began, engine.memory_kills = True, memory_kills()
                elif isinstance(event, Done | Failed):
                    self._job = None

    def _on_engine_exit(self, engine: Engine, code: int) -> None:
        """End the job."""
        with self._lock:
            job, self._engine, self._job = self._job, None, None
        if job is None:
            if not engine.stopping:
                self._on_event(Log(level="error", text=self._cause(engine, code)))
        elif job.state.is_cancelled or engine.stopping:
            self._on_event(Done(job_id=job.submit.job_id, cancelled=True))
        else:
            failed = Failed(
                job_id=job.submit.job_id,
                error=self._cause(engine, code),
                detail=engine.log.tail,
                run=next(iter(job.state.running), None),
                engine_end=self.describe_end(engine, code),
                # An engine that exits before its first job would do so again with this one.
                not_begun=not job.begun and (engine.began or was_killed(code)),
            )
            self._on_event(failed)

    def describe_end(self, engine: Engine, code: int) -> str:
        """Return the cause of an engine's end as the predicate of "the engine"."""
        return describe_end(code, engine.log.tail, engine.memory_kills)

    def _cause(self, engine: Engine, code: int) -> str:
        """Return the cause of an engine's end as a sentence."""
        # Some libraries are loaded only by a job, after Ready.
        lacks_library = LIBRARY_FAULT in engine.log.tail.rpartition("\n")[2]
        if (not engine.ready or lacks_library) and not was_killed(code):
            return describe_start(code, engine.log.tail)
        end = self.describe_end(engine, code)
        return f"The engine {end}; finished results are kept, and starting the job again computes what is missing."

    def _follow_stderr(self, engine: Engine, stderr: IO[bytes]) -> None:
        """Keep what the engine's libraries print, and pass it on as the running job's."""
        for line in _lines(stderr, _LONGEST_LOG_LINE):
            # Of a progress bar, which returns to the start of its line, the last state alone is logged.
            text = without_controls(line.decode(errors="replace").rstrip().rpartition("\r")[2])
            if text:
                engine.log.add(text)
                job = self._job
                job_id = job.submit.job_id if job is not None and job.state.started is not None else None
                self._on_event(Log(level="debug", text=text, job_id=job_id))


def _thread(target: Callable[..., None], *args: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, name=f"engine client {target.__name__}", daemon=True)
    thread.start()
    return thread


def _lines(stream: IO[bytes], limit: int) -> Iterator[bytes]:
    # Iterating over the stream itself would read a line without end into memory.
    return iter(lambda: stream.readline(limit), b"")


def _write(outbox: "queue.SimpleQueue[str | None]", stdin: IO[bytes]) -> None:
    """Write requests until None comes; the engine takes the end of its stdin for the end of its client."""
    with suppress(OSError):  # the engine died, which the watcher reports
        while (line := outbox.get()) is not None:
            stdin.write(line.encode())
            stdin.flush()
    with suppress(OSError):
        stdin.close()


def _terminate(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(TERMINATE_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
