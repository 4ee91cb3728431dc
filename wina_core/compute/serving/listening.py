"""The socket that a server listens on."""

import errno
import ipaddress
import os
import socket

from wina_core.errors import WinaError


def bind(host: str, port: int, *, has_key: bool) -> socket.socket:
    """Return a listening socket; raise WinaError for an unknown host, one that needs a key, and a port in use."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise WinaError(f'"{host}" is no address of this machine; --host 127.0.0.1 is the usual one.') from error
    if not has_key and not is_loopback(str(address[0])):
        raise WinaError(
            f"{host} can be reached by other machines, which needs an API key; set WINA_API_KEY or --api-key-file, or "
            "leave out --host."
        )
    found = socket.socket(family, kind, number)
    try:
        if os.name == "posix":  # elsewhere it would take a port from another program
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen()  # another program's claim of the port is known only now
    except OSError as error:
        found.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            reason = "is in use by another program" if error.errno == errno.EADDRINUSE else "is not allowed to you"
            raise WinaError(f"The port {port} {reason}; choose another one by --port.") from error
        raise WinaError(f"{host} is no address to listen on ({error.strerror}); --host 127.0.0.1 is one.") from error
    return found


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
