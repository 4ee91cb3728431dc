"""Bookkeeping of a part from its engine's events."""

from wina_core.jobs import Event, Measured, Partial, Progress, RunFailed, RunFinished, RunStarted
from wina_core.jobs.phases import LOAD, WORK, phase_name
from wina_core.jobs.run_sharing import Part
from wina_core.specs import COST


def note(part: Part, event: Event) -> None:
    """Keep track of the results of a part, and of whether its engine has loaded the model."""
    job = part.whole
    match event:
        case RunStarted():
            part.begin(event.run)
            job.any_run = True
        case Partial():
            part.on_result()
            part.loaded |= event.unit.unit != COST  # which is counted from the config alone
            part.arrived.add(event.unit.unit)
            if job.times is not None:
                job.times.add(event.unit)
        case Measured():
            part.on_result()
            part.loaded = True
            job.add_point(event.record)
        case Progress():
            part.loaded |= phase_name(event.unit, event.metric) not in (LOAD, WORK)
        case RunFinished() | RunFailed():
            if isinstance(event, RunFailed):
                part.on_result()
            part.end(event.run)
