"""The engines of a pool: this computer's from the start, another machine's from the first job for it."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.worker import Worker
from wina_core.errors import WinaError
from wina_core.jobs import Event
from wina_core.jobs.run_sharing import Part, SharedJob
from wina_core.specs.machine import LOCAL

OnEvent = Callable[[Event], None]
MakeClient = Callable[[OnEvent], EngineClient]
"""Maker of one engine's client from the receiver of its events."""
OpenMachine = Callable[[str], Sequence[MakeClient]]
"""Makers of a machine's engines by its name; raises WinaError for one that is not known or not reached."""


def no_machines(name: str) -> Sequence[MakeClient]:
    """Raise WinaError: this pool has the engines of this computer alone."""
    raise WinaError(f"This program computes on this computer alone, and not on {name}.")


class Workers:
    """The engines of a pool. Apart from `pid`, all is used on the pool's thread."""

    def __init__(
        self,
        makers: Sequence[MakeClient],
        light: MakeClient | None,
        on_event: Callable[[Worker, Event], None],
        post: Callable[[Callable[[], None]], None],
        machines: OpenMachine,
    ) -> None:
        """`makers` and `light` make the engines of this computer; `post` runs an action on the pool's thread."""
        self._on_event = on_event
        self._post = post
        self._machines = machines
        self._all: list[Worker] = []
        for make in makers:
            self._add(make)
        self.light = self._add(light, light=True) if light is not None else None

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def pid(self) -> int | None:
        """Process id of the first engine that runs; None while there is none."""
        return next((pid for worker in self._all if (pid := worker.client.pid) is not None), None)

    def serving(self, job: SharedJob) -> list[Worker]:
        """Return the engines that may compute a job."""
        return [worker for worker in self._all if worker.machine in job.machines]

    def working_on(self, job: SharedJob) -> list[tuple[Worker, Part]]:
        """Return the engines that compute a job, each with its part."""
        return [(worker, worker.part) for worker in self._all if worker.part is not None and worker.part.whole is job]

    def missing(self, machines: Iterable[str]) -> set[str]:
        """Return the machines whose engines are not known yet."""
        return set(machines) - {worker.machine for worker in self._all}

    def open(self, machines: Iterable[str], opened: Callable[[str], None]) -> None:
        """Find the engines of machines on a thread of its own, since it may ask them; then call `opened` with the
        error, which is empty where there is none."""
        threading.Thread(target=self._find, args=(machines, opened), name="machines", daemon=True).start()

    def stop(self) -> None:
        """End all engines at once."""
        stops = [threading.Thread(target=worker.client.stop) for worker in self._all]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()

    def _find(self, machines: Iterable[str], opened: Callable[[str], None]) -> None:
        found: dict[str, Sequence[MakeClient]] = {}
        error = ""
        try:
            for machine in machines:
                found[machine] = self._machines(machine)
        except WinaError as refusal:
            error = str(refusal)
        self._post(partial(self._opened, found, opened, error))

    def _opened(self, found: Mapping[str, Sequence[MakeClient]], opened: Callable[[str], None], error: str) -> None:
        new = self.missing(found)
        for machine, makers in found.items():
            for make in makers if machine in new else ():
                self._add(make, machine=machine)
        opened(error)

    def _add(self, make: MakeClient, *, light: bool = False, machine: str = LOCAL) -> Worker:
        place = len(self._all)
        client = make(lambda event: self._post(lambda: self._on_event(self._all[place], event)))
        self._all.append(Worker(place + 1, client, light=light, machine=machine))
        return self._all[-1]
