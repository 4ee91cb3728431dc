"""Addresses of databases, as text."""

from urllib.parse import parse_qs, urlsplit

SECRETS = ("password", "sslpassword")
"""Parameters of a PostgreSQL address that are passwords."""


def has_password(address: str) -> bool:
    """Return whether an address contains a password, so that it is stored nowhere."""
    try:
        parts = urlsplit(address)
    except ValueError:  # no address, as the database will say
        return False
    return "://" in address and (parts.password is not None or not parse_qs(parts.query).keys().isdisjoint(SECRETS))
