"""A few of the kills of `python -m tests.trust.postgres`."""

import pytest

from tests.trust.postgres import run
from tests.wina_core.store import postgres


@pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing() or "there is a server")
@pytest.mark.parametrize(
    ("clients", "metrics"), [(3, 1_000), pytest.param(0, 2_000, marks=pytest.mark.nightly)], ids=["both", "the server"]
)
def test_nothing_is_lost_or_doubled_by_kills_of_a_server_and_its_clients(clients: int, metrics: int) -> None:
    report = run(writers=3, metrics=metrics, client_kills=clients, server_kills=1)
    assert (report.server_kills, report.metrics) == (1, metrics)
    assert min(clients, 1) <= report.client_kills <= clients, "the last may come too late"
    assert report.faults == 0, report
    assert clients or report.recomputed == 0, "of a killed server only"
