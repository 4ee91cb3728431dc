"""Recording of the host's results in a database, once no window does it."""

import logging
from collections.abc import Sequence
from contextlib import suppress

from wina_core.engine.host.place import Address, Place
from wina_core.engine.protocol import Done, Event, Failed, Ready, Submit
from wina_core.errors import WinaError
from wina_core.store import Recorder, Store

BUSY = "Other jobs of this database run in the background already; wait for them, or stop them on the Jobs dock or by "
BUSY += "wina jobs cancel."


class Recording:
    """The open database of a background host, which is its only one."""

    def __init__(self, database: str, address: Address, jobs: Sequence[Submit], ready: Ready | None) -> None:
        """Take over jobs. Raises WinaError if the database cannot be written or has a background host already."""
        self._place = Place(database)
        self._recorders: dict[str, Recorder] = {}
        if not self._place.lock.acquire():
            raise WinaError(BUSY)
        try:
            self._store = Store(database)
            try:
                self.take(jobs, ready)
                self._place.announce(address)
            except BaseException:
                self._store.close()
                raise
        except BaseException:
            self._place.lock.release()
            raise

    def take(self, jobs: Sequence[Submit], ready: Ready | None) -> None:
        """Take jobs over from their client, with their runs; their results follow."""
        self._store.keep_jobs(jobs)
        for submit in jobs:
            self._recorders[submit.job_id] = Recorder(
                self._store, submit.job, None if ready is None else ready.environment
            )

    def adopt(self, jobs: Sequence[Submit]) -> None:
        """Own jobs and their runs once more: their client may have recorded a beginning after they were taken."""
        with suppress(WinaError):
            self._store.keep_jobs(jobs)

    def record(self, event: Event) -> None:
        """Store what an event brings."""
        if isinstance(event, Ready):
            for recorder in self._recorders.values():
                recorder.record(event)
            return
        job_id = getattr(event, "job_id", None)
        if job_id not in self._recorders:
            return
        try:
            self._recorders[job_id].record(event)
            if isinstance(event, Done | Failed):
                del self._recorders[job_id]
                self._store.forget_jobs([job_id])
        except WinaError as error:
            logging.getLogger(__name__).error("A result could not be stored: %s", error)

    def close(self) -> None:
        """Close the database and leave its place to another host."""
        self._store.close()
        self._place.withdraw()
