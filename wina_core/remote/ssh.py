"""The command line of the user's OpenSSH client, and its failures as sentences."""

import re

from wina_core.errors import printable
from wina_core.specs.machine import Machine

FAILED = 255
"""Exit code of ssh itself; others are those of the command there."""
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
"""Exit codes of the shell there for a program that it does not have or may not run."""
_OPTIONS = (
    "BatchMode=yes",  # a prompt would wait for ever
    "ConnectTimeout=10",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",  # a dead connection ends after 30 s
    "ClearAllForwardings=yes",  # ports that the user forwards are taken by the first connection
)


def ssh_command(machine: Machine, subcommand: str) -> list[str]:
    """Return the local command that runs a subcommand of the machine's program `wina`."""
    options = [word for option in _OPTIONS for word in ("-o", option)]
    return ["ssh", "-T", *options, "--", machine.host, f"{machine.command} {subcommand}"]


_FAULTS = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key is another than the known one", "ask its administrator "
     "whether that is right, then correct your known_hosts file"),
    (r"Host key verification failed", "its host key is not known yet", "connect once by hand and compare the key"),
    (r"Could not resolve hostname", "its name is unknown", "correct the host, or add it to your ~/.ssh/config"),
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
    by_hand = f"ssh {machine.host} true"  # in a terminal, where ssh may ask
    last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
    if code == FAILED:
        for pattern, fault, remedy in _FAULTS:
            if re.search(pattern, stderr):
                return f"The {whose} cannot be reached: {fault} ({_short(last)}); {remedy} (by hand: {by_hand})."
        return f"The connection to the {whose} failed ({_short(last) or 'ssh said nothing'}); try by hand: {by_hand}."
    if code in (_NOT_FOUND, _NOT_EXECUTABLE):
        return (
            f'The {whose} cannot run "{_short(machine.command)}" ({_short(last)}); install it there (pip install '
            f"wina-workbench), or give its path there: wina machines add {machine.host} --command PATH."
        )
    if last.startswith(_OWN):
        return f"The {whose} says: {_short(last.removeprefix(_OWN))}."
    return (
        f"The command on the {whose} ended with code {code} ({_short(last) or 'without a message'}); check its "
        f"--command, {_short(machine.command)}."
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
