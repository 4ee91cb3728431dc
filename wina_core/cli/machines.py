"""`wina machines`: other machines over ssh."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from wina_core.cli.arguments import options
from wina_core.cli.tables import print_pairs, print_table
from wina_core.errors import WinaError, printable
from wina_core.files.disk import file_size, gigabytes
from wina_core.files.memory import parse_bytes
from wina_core.remote.machines.registry import find_machine, load_places, remove_machine, save_machine
from wina_core.specs.machine import Machine, RayCluster

COLUMNS = ("name", "destination", "command", "folders", "environment", "engines", "ssh_config")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The machine's name, as `wina machines list` shows it.")]
Python = Annotated[
    str | None, typer.Option("--python", metavar="PATH", help="The Python there; else the first that is new enough.")
]

app = typer.Typer(help="Use other machines over ssh: add, set up, check, fetch from.", no_args_is_help=True)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help='2 to 64 letters, digits and _.-; not "local".')],
    destination: Annotated[
        str, typer.Argument(help="Alias of your ~/.ssh/config, user@host, or ssh://user@host:port.")
    ],
    command: Annotated[str, typer.Option("--command", help="The program wina there, with its arguments.")] = "wina",
    folder: Annotated[
        list[str] | None,
        typer.Option("--folder", metavar="HERE=THERE", help="Repeatable: folders with the same files."),
    ] = None,
    variable: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="Repeatable: an environment variable of wina there."),
    ] = None,
    engines: Annotated[int, typer.Option("--engines", help="Most engine processes there; 0 is one for each GPU.")] = 1,
    ssh_config: Annotated[
        Path | None, typer.Option("--ssh-config", metavar="FILE", help="A file for ssh -F; else your own.")
    ] = None,
) -> None:
    """Add a machine, or replace the one of this name."""
    pairs = [_split(text, "HERE=THERE") for text in folder or ()]
    machine = Machine(
        name=name,
        destination=destination,
        command=tuple(_words(command)),
        folders=tuple({"here": here, "there": there} for here, there in pairs),
        environment=dict(_split(text, "NAME=VALUE") for text in variable or ()),
        engines=engines,
        ssh_config=None if ssh_config is None else str(ssh_config.expanduser().absolute()),
    )
    save_machine(machine)
    typer.echo(f"{name} is stored; continue with: wina machines setup {name}, or check {name}.", err=True)


@app.command("add-ray")
def add_ray(
    name: Annotated[str, typer.Argument(help='2 to 64 letters, digits and _.-; not "local".')],
    address: Annotated[
        str, typer.Argument(help='HOST:PORT of the running cluster, or "auto" on one of its nodes.')
    ] = "auto",
    gpus: Annotated[
        float | None, typer.Option("--gpus", help="GPUs of one engine, such as 0.5; 1 where there are any.")
    ] = None,
    cpus: Annotated[
        float | None, typer.Option("--cpus", help="Processors of one engine; without GPUs a node's by default.")
    ] = None,
    memory: Annotated[str | None, typer.Option("--memory", metavar="SIZE", help="Memory of one engine.")] = None,
    engines: Annotated[int, typer.Option("--engines", help="Number of engines; 0 for all that fit.")] = 0,
) -> None:
    """Add a running Ray cluster, or replace the one of this name; --machine NAME computes there."""
    size = None if memory is None else parse_bytes(memory)
    save_machine(RayCluster(name=name, address=address, gpus=gpus, cpus=cpus, memory=size, engines=engines))
    typer.echo(f"{name} is stored; compute there with: wina study run STUDY --machine {name}.", err=True)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise WinaError(f"The command {command!r} cannot be split into words ({error}); close its quotes.") from error


def _split(text: str, form: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if not equals:
        raise WinaError(f"{text!r} has no =; write {form}.")
    return left, right


@app.command("list")
def list_machines(as_json: options.Json = False) -> None:
    """List the machines; a Ray cluster's destination is its address."""
    rows: list[list[Any]] = []
    for machine in load_places().values():
        if isinstance(machine, RayCluster):
            rows.append([machine.name, f"Ray {machine.address}", *([None] * 3), machine.engines, None])
            continue
        content = machine.model_dump(mode="json")
        if not as_json:
            content["command"] = shlex.join(machine.command)
            content["folders"] = " ".join(f"{pair.here}={pair.there}" for pair in machine.folders)
            content["environment"] = " ".join(machine.environment)
            content["ssh_config"] = machine.ssh_config or ""
        rows.append([content[name] for name in COLUMNS])
    if not rows and not as_json:
        typer.echo("There is no machine yet; add one: wina machines add NAME DESTINATION.")
        return
    print_table(COLUMNS, rows, as_json)


@app.command()
def remove(name: Name) -> None:
    """Forget a machine; nothing there is changed."""
    remove_machine(name)
    typer.echo(f"{name} is forgotten; nothing there has changed.", err=True)


@app.command()
def check(name: Name, as_json: options.Json = False) -> None:
    """Show a machine's program and hardware, measure the connection, and run a job of an engine there."""
    from wina_core.remote.machines.check import check_machine

    _print_report(check_machine(find_machine(name), _print_step), as_json)


@app.command()
def setup(
    name: Name,
    python: Python = None,
    wheel: Annotated[Path | None, typer.Option("--wheel", help="A wheel of this program; else its own files.")] = None,
    as_json: options.Json = False,
) -> None:
    """Install this program into ~/.wina-workbench of a machine that has Python, and check it; repeatable."""
    from wina_core.remote.machines.setup import set_up_machine

    def print_detail(text: str) -> None:
        print(f"  {text}", file=sys.stderr)

    _print_report(set_up_machine(find_machine(name), _print_step, print_detail, python, wheel), as_json)


@app.command()
def unset(name: Name, python: Python = None) -> None:
    """Delete what `wina machines setup` made on a machine; results and models there stay."""
    from wina_core.remote.machines.setup import unset_machine

    found = unset_machine(find_machine(name), python)
    typer.echo(f"~/.wina-workbench on {name} {'is deleted' if found else 'was not there'}.", err=True)


def _print_step(text: str) -> None:
    print(text, file=sys.stderr)


def _print_report(report: Any, as_json: bool) -> None:
    """Print a `MachineReport`."""
    if as_json:
        typer.echo(report.model_dump_json(indent=1))
        return
    facts = report.facts
    devices = {
        f"device {place}": f"{device.name}, {gigabytes(device.memory_free)} of {gigabytes(device.memory_total)} free"
        for place, device in enumerate(facts.devices, 1)
    }
    pairs = {
        "machine": f"{report.machine} ({facts.host}, {facts.system})",
        "wina": f"{facts.program}, protocol {facts.protocol}, Python {facts.python}",
        "engine's device": f"{report.environment.device} ({report.environment.hardware})",
        **devices,
        "processors": facts.cpus,
        "memory": f"{gigabytes(facts.memory_free)} of {gigabytes(facts.memory_total)} free",
        "results": f"{facts.data_folder}, {gigabytes(facts.data_free)} free",
        "cache": f"{facts.cache_folder}, {gigabytes(facts.cache_free)} free",
        "latency": f"{report.latency_seconds * 1e3:.1f} ms",
        "upload": f"{file_size(report.upload)}/s",
        "download": f"{file_size(report.download)}/s",
        "a job": f"{report.job_seconds:.1f} s, the engine's start included",
    }
    print_pairs({name: printable(str(value)) for name, value in pairs.items()})
