"""The report of a machine's check as read-outs."""

from typing import TYPE_CHECKING

from wina_app.style.number_format import size
from wina_app.style.translation import tr
from wina_core.errors import printable

if TYPE_CHECKING:
    from wina_core.remote.machines.check import MachineReport


def report_figures(report: "MachineReport") -> list[tuple[str, str, str]]:
    """Return (caption, value, explanation) of each read-out."""
    facts, environment = report.facts, report.environment
    versions = "\n".join(f"{name} {version}" for name, version in environment.versions.items())
    devices = "\n".join(f"{device.name}: {_free(device.memory_free, device.memory_total)}" for device in facts.devices)
    about = tr("Protocol {number}, Python {version}", number=facts.protocol, version=facts.python)
    found = [
        (tr("Program"), f"wina {facts.program}", about),
        (tr("Machine"), facts.host, facts.system),
        (tr("Engine's device"), f"{environment.device}: {environment.hardware}", versions),
        (tr("GPUs"), str(len(facts.devices)), devices),
        (tr("Processors"), str(facts.cpus), ""),
        (tr("Memory"), _free(facts.memory_free, facts.memory_total), ""),
        (tr("Disk of results"), tr("{free} free", free=size(facts.data_free)), facts.data_folder),
        (tr("Disk of the cache"), tr("{free} free", free=size(facts.cache_free)), facts.cache_folder),
        (tr("Latency"), f"{report.latency_seconds * 1e3:.1f} ms", tr("Median of several round trips")),
        (tr("Upload"), f"{size(report.upload)}/s", ""),
        (tr("Download"), f"{size(report.download)}/s", ""),
        (tr("A job"), f"{report.job_seconds:.1f} s", tr("Loading the demo model, the engine's start included")),
    ]  # fmt: skip
    return [(caption, printable(value), "\n".join(map(printable, tip.splitlines()))) for caption, value, tip in found]


def _free(free: float, total: float) -> str:
    return tr("{free} of {total} free", free=size(free), total=size(total))
