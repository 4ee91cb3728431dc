"""Bridge to an engine on another machine, which looks to an `EngineClient` like an engine of this one.

`python -m wina_core.remote.engine.bridge MACHINE PLACE COUNT` takes requests on stdin and sends events on stdout. It
connects by the user's ssh, and again whenever the connection ends; each request and event arrives once. It exits as the
engine does. When its client is gone without Shutdown, it leaves the engine and its results to the next bridge.
"""

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import BinaryIO

from pydantic import ValidationError

from wina_core.errors import WinaError, printable
from wina_core.jobs import (
    EVENTS,
    REQUESTS,
    Cancel,
    Done,
    EngineRequest,
    EvaluateJob,
    Event,
    Failed,
    Log,
    Partial,
    Release,
    Shutdown,
    Started,
    Submit,
    encode,
)
from wina_core.jobs.streams import take_standard_streams
from wina_core.remote.engine.frames import Breach, Frame, Welcome, show
from wina_core.remote.engine.guard import Guard, check_idle
from wina_core.remote.engine.link import Link
from wina_core.remote.engine.slots import Slot
from wina_core.remote.machines.registry import find_machine
from wina_core.remote.machines.ssh import explain_ssh, ssh_command
from wina_core.specs.machine import Machine

KILL_SECONDS = 2.5
"""Time for the engine there to be killed after SIGTERM, before this process ends without it."""
FLUSH_SECONDS = 1.0
"""Time for the keeper to learn that everything has arrived."""
MOST_SMALL, RATE_SECONDS = 50_000, 10.0
"""Events and lines of the log that are taken in so many seconds; an engine that says more has to wait."""
MOST_LEFTOVER_BYTES = 2**28
"""Bytes of earlier sessions' results that wait for a job; further ones are computed again."""
_NAMES = ("SIGKILL", "SIGTERM", "SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")
_SIGNALS = {getattr(signal, name) for name in _NAMES if hasattr(signal, name)}
_KILL = getattr(signal, "SIGKILL", None)
_LOG_CHARACTERS = 4096
_RELEASED = ("evaluate", "latency", "decode")
"""Kinds of jobs that end at their next measurement."""


class Bridge:
    """One engine on a machine, and its job."""

    def __init__(self, machine: Machine, attach: Sequence[str], wire: BinaryIO) -> None:
        """`attach` are the arguments of `wina remote attach`."""
        self._machine = machine
        self._wire = wire
        self._lock = threading.RLock()
        self._guard: Guard | None = None
        self._waiting: list[EngineRequest] = []
        """Requests until the rest of an earlier bridge's job is known."""
        self._welcomed = self._settled = self._stopping = False
        self._before = 0
        """Number of the last event of earlier bridges."""
        self._old_job = ""
        """Id of a job that the engine has not ended, of an earlier bridge or cancelled before it began."""
        self._leftovers: list[Partial] = []
        self._leftover_bytes = 0
        self._lost = ""
        self._small, self._since = 0, 0.0
        command = ssh_command(machine, "remote", "attach", *attach)
        explain = partial(explain_ssh, machine=machine)
        self._link = Link(command, explain, self._on_welcome, self._on_frame, self._on_lost)

    def run(self, requests: BinaryIO) -> None:
        """Serve until the engine exits or the client is gone. Raises WinaError if there can be no engine."""
        signal.signal(signal.SIGTERM, lambda *_: self._terminate())
        threading.Thread(target=self._read, args=(requests,), name="requests", daemon=True).start()
        try:
            self._link.run()
        except Breach as breach:
            name = self._machine.name
            self._give_up(f"The engine on {name} sent {breach}; it was ended, and all earlier results stay.")
        except WinaError as error:
            self._give_up(str(error))

    # ---- requests ------------------------------------------------------------------------------------------------

    def _read(self, requests: BinaryIO) -> None:
        for line in requests:
            self._request(REQUESTS.validate_json(line))
        if not self._stopping:
            self._link.close()

    def _request(self, request: EngineRequest) -> None:
        with self._lock:
            self._stopping |= isinstance(request, Shutdown)
            if self._settled or isinstance(request, Shutdown):
                self._pass_on(request)
            elif isinstance(request, Cancel) and self._waiting:
                self._waiting.clear()
                self._emit(Done(job_id=request.job_id, cancelled=True))
            else:
                self._waiting.append(request)

    def _pass_on(self, request: EngineRequest) -> None:
        if not isinstance(request, Submit):
            self._link.send(encode(request).rstrip())
            if isinstance(request, Cancel) and self._guard is not None and not self._guard.started:
                self._guard, self._old_job, self._settled = None, request.job_id, False  # nobody waits for its engine
                self._emit(Done(job_id=request.job_id, cancelled=True))
            return
        try:
            self._guard = guard = Guard(request, self._machine)
        except WinaError as error:
            self._emit(Failed(job_id=request.job_id, error=str(error)))
            return
        job, found = guard.submit.job, list[Event]()
        if isinstance(job, EvaluateJob):
            found, self._leftovers, self._leftover_bytes = guard.leftovers(self._leftovers), [], 0
            job = guard.submit.job
        if found:
            self._emit(Started(job_id=guard.job_id), *found)
        if isinstance(job, EvaluateJob) and found and not job.runs:
            self._guard = None
            self._emit(Done(job_id=guard.job_id))
        else:
            self._link.send(encode(guard.submit).rstrip())

    def _settle(self) -> None:
        """Pass on what waits, once nothing of earlier bridges can follow."""
        if not self._settled and not self._old_job and self._link.received >= self._before:
            self._settled = True
            for request in self._waiting:
                self._pass_on(request)
            self._waiting.clear()

    # ---- events --------------------------------------------------------------------------------------------------

    def _on_welcome(self, welcome: Welcome) -> None:
        with self._lock:
            if self._lost:
                self._emit(Log(level="info", text=f"{self._machine.name} is connected again."))
                self._lost = ""
            if self._welcomed:
                return
            self._welcomed, self._before, self._old_job = True, welcome.before, welcome.job
            if welcome.ready:
                self._take(welcome.ready)
            if self._old_job:
                end = Release if welcome.job_kind in _RELEASED else Cancel
                self._link.send(encode(end(job_id=self._old_job)).rstrip())
                text = f"{self._machine.name} still computes for an earlier session; this job follows then."
                self._emit(Log(level="info", text=text))
            self._settle()

    def _on_lost(self, reason: str) -> None:
        with self._lock:
            if reason != self._lost:
                self._lost = reason
                text = f"{reason} Its engine continues; the connection is tried again until it works."
                self._emit(Log(level="warning", text=text))

    def _on_frame(self, frame: Frame) -> None:
        self._limit()
        with self._lock:
            match frame.kind:
                case "log":
                    print(printable(frame.text[:_LOG_CHARACTERS]), file=sys.stderr, flush=True)
                case "exit" if frame.n > self._before:
                    self._exit(frame)
                case "event" if frame.n <= self._before:
                    self._keep(_event(frame.text), len(frame.text))
                case "event":
                    self._take(frame.text)
            self._settle()

    def _take(self, text: str) -> None:
        """Pass an event on, if it belongs to the job."""
        event = _event(text)
        job_id = getattr(event, "job_id", None)
        if self._old_job and job_id == self._old_job:
            self._keep(event, len(text))
            return
        if job_id is None or self._guard is None:
            self._emit(check_idle(event, len(text)))
            return
        event = self._guard.check(event, len(text))
        if isinstance(event, Done | Failed):
            self._guard = None
        if isinstance(event, Failed):
            event = event.model_copy(update={"error": f"{self._machine.name}: {event.error}"})
        self._emit(event)

    def _keep(self, event: Event, size: int) -> None:
        """Keep a result for an earlier bridge until a job asks for it."""
        if isinstance(event, Partial):
            if (left := self._leftover_bytes + size) <= MOST_LEFTOVER_BYTES:
                self._leftovers.append(event)
                self._leftover_bytes = left
        elif isinstance(event, Done | Failed) and event.job_id == self._old_job:
            self._old_job = ""

    def _limit(self) -> None:
        """Let an engine that sends without end wait, and with it nobody else."""
        now = time.monotonic()
        if now - self._since > RATE_SECONDS:
            self._small, self._since = 0, now
        self._small += 1
        if self._small > MOST_SMALL:
            time.sleep(max(0.0, self._since + RATE_SECONDS - now))

    def _emit(self, *events: Event) -> None:
        """Send events to the client; end where it is gone."""
        try:
            self._wire.write("".join(map(encode, events)).encode())
            self._wire.flush()
        except OSError:
            os._exit(1)

    # ---- the end -------------------------------------------------------------------------------------------------

    def _give_up(self, text: str) -> None:
        """End the job and this process for a machine without an engine, or with one that breaks the rules."""
        with self._lock:
            waiting = next((each.job_id for each in self._waiting if isinstance(each, Submit)), None)
            if self._welcomed and (job_id := self._guard.job_id if self._guard else waiting) is not None:
                self._emit(Failed(job_id=job_id, error=text))
        print(text, file=sys.stderr, flush=True)
        os._exit(1)

    def _terminate(self) -> None:
        """Kill the engine after SIGTERM; end in any case."""
        self._link.kill()
        timer = threading.Timer(KILL_SECONDS, _end_as, args=(-signal.SIGTERM,))
        timer.daemon = True
        timer.start()

    def _exit(self, frame: Frame) -> None:
        """End this process as the engine ended."""
        code = int(frame.text) if re.fullmatch(r"-?[0-9]{1,3}", frame.text) else 1
        self._link.finish(frame.n, FLUSH_SECONDS)
        _end_as(code)


def _event(text: str) -> Event:
    """Return the event of a line. Raises Breach for a line that is none."""
    try:
        return EVENTS.validate_json(text)
    except (ValidationError, RecursionError) as error:
        raise Breach(f"a line that is no event: {show(text.encode())}") from error


def _end_as(code: int) -> None:
    """End this process with the exit status of another one."""
    sys.stderr.flush()
    if -code in _SIGNALS:
        if -code != _KILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        time.sleep(1.0)
    os._exit(code if code >= 0 else 1)


def main() -> int:
    """Bridge to one of so many engines of the machine that the command names."""
    for ignored in ("SIGINT", "SIGHUP"):  # the client's to handle
        with suppress(AttributeError):
            signal.signal(getattr(signal, ignored), signal.SIG_IGN)
    requests, wire = take_standard_streams()
    try:
        machine = find_machine(sys.argv[1])
        slot = Slot(machine.name)  # held while this function runs
        Bridge(machine, [slot.session, *sys.argv[2:4]], wire).run(requests)
    except WinaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # at once: a thread that still reads must not keep the process alive
