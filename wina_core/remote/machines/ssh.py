"""Argument lists for the user's OpenSSH client, and its failures as sentences."""

import re
import shlex
import shutil

from wina_core.errors import WinaError, printable
from wina_core.specs.machine import Machine

FAILED = 255
"""Exit code of ssh itself; others are those of the command there."""
NOT_FOUND, _NOT_EXECUTABLE = 127, 126
"""Exit codes of the shell there for a program that it does not have or may not run."""
_OPTIONS = (
    "BatchMode=yes",  # a prompt would wait for ever
    "ConnectTimeout=10",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",  # a dead connection ends after 30 s
    "ClearAllForwardings=yes",  # ports that the user forwards are taken by the first connection
    "ForwardAgent=no",
    "ForwardX11=no",
    "RequestTTY=no",
    "RemoteCommand=none",
)


def ssh_options(machine: Machine) -> list[str]:
    """Return the options of ssh and sftp for a machine; host keys are checked as the user's configuration says."""
    return [*_config(machine), *(word for option in _OPTIONS for word in ("-o", option))]


def _config(machine: Machine) -> list[str]:
    return ["-F", machine.ssh_config] if machine.ssh_config else []


def ssh_command(machine: Machine, *arguments: str) -> list[str]:
    """Return the local command that runs the machine's program `wina` with these arguments."""
    return ssh_program(machine, *machine.command, *arguments)


def ssh_program(machine: Machine, program: str, *arguments: str) -> list[str]:
    """Return the local command that runs a program in the machine's environment; each word is quoted for the shell.

    The shell there replaces a leading ~/ of the program by the home folder.
    """
    variables = [f"{name}={value}" for name, value in machine.environment.items()]
    quoted = f"~/{shlex.quote(program[2:])}" if program.startswith("~/") else shlex.quote(program)
    words = [shlex.join(["env", *variables])] * bool(variables) + [quoted] + [shlex.join(arguments)] * bool(arguments)
    return [client("ssh"), *ssh_options(machine), "-T", "--", machine.destination, " ".join(words)]


def client(program: str) -> str:
    """Return the path of ssh or sftp; raise WinaError where it is missing."""
    found = shutil.which(program)
    if found is None:
        raise WinaError(
            f"The program {program} was not found; install the OpenSSH client (Debian: apt install openssh-client; "
            "Windows: Settings, Optional features)."
        )
    return found


_FAULTS = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key is another than the known one", "ask its administrator "
     "whether that is right, then correct your known_hosts file"),
    (r"Host key verification failed", "its host key is not known yet", "connect once by hand and compare the key"),
    (r"Could not resolve hostname", "its name is unknown", "correct the destination, or add it to your ~/.ssh/config"),
    (r"Permission denied|Too many authentication failures", "it refused the login", "add your key there, or load it "
     "into your ssh agent"),
    (r"Connection refused", "nothing listens on its ssh port", "start sshd there, or correct the port"),
    (r"timed out|not responding", "it does not answer", "check the network, and that the machine is on"),
    (r"No route to host|Network is unreachable", "the network has no way to it", "check the network or the VPN"),
    (r"Can't open user config file|Bad configuration option|terminating, \d+ bad configuration", "ssh refuses its "
     "configuration file", "correct it"),
    (r"closed by|Connection reset|Broken pipe|kex_exchange_identification", "the connection was closed", "try again"),
)  # fmt: skip
"""Texts of ssh, the fault each means, and the remedy."""
_OWN = "wina: "
"""Beginning of a sentence of this program."""


def explain_ssh(code: int, stderr: str, machine: Machine) -> str:
    """Return one sentence on an ssh command that ended with this code and these last lines of stderr."""
    whose = f'machine "{machine.name}"'
    by_hand = shlex.join(["ssh", *_config(machine), machine.destination, "true"])  # in a terminal, where ssh may ask
    last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
    if code == FAILED:
        for pattern, fault, remedy in _FAULTS:
            if re.search(pattern, stderr):
                return f"The {whose} cannot be reached: {fault} ({_short(last)}); {remedy} (by hand: {by_hand})."
        return f"The connection to the {whose} failed ({_short(last) or 'ssh said nothing'}); try by hand: {by_hand}."
    if code in (NOT_FOUND, _NOT_EXECUTABLE):
        return (
            f'The {whose} has no program "{_short(machine.command[0])}" ({_short(last)}); set it up: wina machines '
            f"setup {machine.name}; or add it again with --command, the path of wina there."
        )
    if last.startswith(_OWN):
        return f"The {whose} says: {_short(last.removeprefix(_OWN))}."
    return (
        f"The command on the {whose} ended with code {code} ({_short(last) or 'without a message'}); check its "
        f"--command, {_short(shlex.join(machine.command))}."
    )


def describe_ssh_end(code: int, stderr: str) -> str:
    """Return the end of a program that was running on a machine as a predicate, by ssh's exit code and stderr."""
    last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
    if code < 0:  # ssh itself was killed
        return "lost its connection"
    if code == FAILED:
        return f"lost its connection, or was killed ({_short(last) or 'ssh printed no reason'})"
    return f"stopped with exit code {code} ({_short(last) or 'without a message'})"


def _short(text: str) -> str:
    text = printable(text).rstrip(". ")
    return text if len(text) <= 200 else f"{text[:200]}..."
