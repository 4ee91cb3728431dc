"""`wina machines`: other machines over ssh, and Ray clusters."""

from typing import Annotated

import typer

from wina_core.cli import options
from wina_core.cli.tables import print_pairs, print_table
from wina_core.errors import WinaError
from wina_core.files.hardware import parse_bytes
from wina_core.remote.registry import find_machine, load_places, remove_machine, save_machine
from wina_core.specs.machine import Machine, RayCluster

Name = Annotated[str, typer.Argument(metavar="HOST", help="The machine, as `wina machines list` shows it.")]

app = typer.Typer(help="Use other machines over ssh: add, list, check, remove.", no_args_is_help=True)


@app.command()
def add(
    host: Annotated[str, typer.Argument(help="Host of your ~/.ssh/config, or user@host; also its name in commands.")],
    command: Annotated[
        str, typer.Option("--command", help="The program wina there, such as `env HF_HOME=/hf /opt/wina/bin/wina`.")
    ] = "wina",
    folder: Annotated[
        list[str] | None,
        typer.Option("--folder", metavar="HERE=THERE", help="Repeatable: folders with the same files."),
    ] = None,
) -> None:
    """Add a machine, or replace the one of this host."""
    save_machine(Machine(host=host, command=command, folders=dict(map(_split, folder or ()))))
    typer.echo(f"{host} is stored; check it with: wina machines check {host}.", err=True)


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


def _split(text: str) -> tuple[str, str]:
    local, equals, remote = text.partition("=")
    if not equals:
        raise WinaError(f"{text!r} has no =; write HERE=THERE.")
    return local, remote


@app.command("list")
def list_machines(as_json: options.Json = False) -> None:
    """List the machines; a Ray cluster has an address instead of a command."""
    rows: list[tuple[object, ...]] = []
    for machine in load_places().values():
        if isinstance(machine, RayCluster):
            rows.append((machine.name, f"Ray {machine.address}", {} if as_json else ""))
        else:
            pairs = " ".join(f"{local}={remote}" for local, remote in machine.folders.items())
            rows.append((machine.host, machine.command, machine.folders if as_json else pairs))
    if not rows and not as_json:
        typer.echo("There is no machine yet; add one: wina machines add HOST.")
        return
    print_table(("machine", "command", "folders"), rows, as_json)


@app.command()
def remove(name: Name) -> None:
    """Forget a machine; nothing there is changed."""
    remove_machine(name)
    typer.echo(f"{name} is forgotten; nothing there has changed.", err=True)


@app.command()
def check(name: Name, as_json: options.Json = False) -> None:
    """Start an engine on a machine, and print its device and versions."""
    from wina_core.remote.machine_client import check_machine

    environment = check_machine(find_machine(name)).environment
    if as_json:
        typer.echo(environment.model_dump_json(indent=1))
        return
    print_pairs({"device": environment.device, "hardware": environment.hardware, **environment.versions})
