"""Recording of the host's results in a database, once no window does it."""

import logging
from collections.abc import Sequence
from contextlib import suppress

from wina_core.engine.host.place import Address, Place
from wina_core.errors import WinaError
from wina_core.jobs import Done, Event, Failed, Ready, Submit
from wina_core.store import Backlog, Store

BUSY = (
    "Other jobs of this database run in the background already; wait for them, or cancel them in a new window or by "
    "wina jobs cancel --all."
)


class Recording:
    """The open database of a background host, which is its only one."""

    def __init__(self, database: str, address: Address, jobs: Sequence[Submit], ready: Ready | None) -> None:
        """Take over jobs. Raises WinaError if the database cannot be written or has a background host already."""
        self._place = Place(database)
        try:
            self._place.lock.wait(1.0)  # a client that looks for a host holds it for a moment
        except WinaError as error:
            raise WinaError(BUSY) from error
        try:
            self._store = Store(database)
            self._backlog = Backlog(self._store)
            try:
                self.adopt(jobs)
                self._place.announce(address)
            except BaseException:
                self._store.close()
                raise
        except BaseException:
            self._place.lock.release()
            raise
        if ready is not None:
            self._backlog.record(ready)
        for submit in jobs:
            self._backlog.record(submit)

    def adopt(self, jobs: Sequence[Submit]) -> None:
        """Own jobs and their runs, so that a program that opens the database knows that they are alive."""
        self._store.keep_jobs(jobs)

    def submit(self, submit: Submit) -> None:
        """Own a new job, whose results follow."""
        with suppress(WinaError):  # on a full disk it is computed nevertheless
            self.adopt([submit])
        self.record(submit)

    def record(self, message: Submit | Event, *, interrupted: bool = False) -> None:
        """Store what a message brings, or keep it until the database takes it.

        The jobs of a host that is `interrupted` stay unfinished, to be resumed.
        """
        if interrupted and isinstance(message, Done):
            message = message.model_copy(update={"cancelled": False})
        try:
            self._backlog.record(message)
            if isinstance(message, Done | Failed) and not interrupted:
                self._store.forget_jobs([message.job_id])
        except WinaError as error:
            logging.getLogger(__name__).error("A result could not be stored: %s", error)

    def retry(self) -> None:
        """Store what waits."""
        try:
            self._backlog.retry()
        except WinaError as error:
            logging.getLogger(__name__).error("A result could not be stored: %s", error)

    def close(self) -> None:
        """Close the database and leave its place to another host."""
        try:
            if left := self._backlog.close():
                logging.getLogger(__name__).error("%s", left)
        except WinaError as error:
            logging.getLogger(__name__).error("Results are lost: %s", error)
        self._store.close()
        self._place.withdraw()
