"""Addresses of databases, as text."""

from urllib.parse import parse_qs, urlsplit

SECRETS = ("password", "sslpassword")
"""Parameters of a PostgreSQL address that are passwords."""


def has_password(address: str) -> bool:
    """Return whether an address contains a password, so that it is stored nowhere."""
    try:
        url = urlsplit(address)
    except ValueError:  # no address, as the database will say
        return False
    return "://" in address and (url.password is not None or not parse_qs(url.query).keys().isdisjoint(SECRETS))
