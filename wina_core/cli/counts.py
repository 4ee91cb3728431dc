"""Numbers with their nouns."""


def counted(count: int, noun: str) -> str:
    """Return "1 job" or "2,000 jobs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
