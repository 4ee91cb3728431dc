"""Seeded damage to a file: to its bytes, to a value within it, or to the kind of file that it is."""

import json
import os
import socket
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

HUGE = 5 * 2**30
"""Bytes of a sparse file, of which nothing is on the disk."""
_DEEP = 5_000
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 1e9, 2**31, 2**63, 10**30, -(2**40), 0.5, -0.5, 1e308, float("nan"),
    float("inf"), float("-inf"), "", "x", "nan", "../../../etc/passwd", "/etc/passwd", "\ud800", "\0", "a" * 100_000,
    "{{ 1/0 }}", "{% for i in range(10**12) %}x{% endfor %}", "((((", "(?:a+)+$", [], {}, [None], [[]], [1, "x", None],
    {"x": 1}, {"type": "x"}, [0] * 1000,
)  # fmt: skip
"""Values that no field, or few, can have. Surrogates are written as JSON escapes."""


def damage(path: Path, random: Random) -> str:
    """Damage a file in place in one of the ways that its suffix allows, and return the way."""
    ways = [_special] + 5 * [_bytes] + 12 * _OF_SUFFIX.get(path.suffix, [_words])
    return random.choice(ways)(path, random)


def rename(path: Path, random: Random) -> tuple[Path, str]:
    """Give a file or folder a name that few programs expect; return its new path and the way."""
    name = random.choice(("\udcff\udcfe", "a\x1b[2Jb", "%s%00", "{x}", "'\"`$(id)", "ünï\u202ecode", "-x", "n" * 240))
    new = path.with_name(name + path.suffix * random.choice((0, 1, 1)))
    path.rename(new)
    return new, f"named {new.name!r}"


# ---- bytes ---------------------------------------------------------------------------------------------------------


def _bytes(path: Path, random: Random) -> str:
    content = path.read_bytes()
    name, change = random.choice(_CHANGES)
    path.unlink()
    path.write_bytes(change(content, random))
    return name


def _truncated(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _flipped(content: bytes, random: Random) -> bytes:
    flipped = bytearray(content)
    for _ in range(random.choice((1, 1, 3, 20))):
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _inserted(*pieces: bytes) -> Callable[[bytes, Random], bytes]:
    def change(content: bytes, random: Random) -> bytes:
        place = random.randrange(len(content) + 1)
        return content[:place] + random.choice(pieces) + content[place:]

    return change


_CHANGES: tuple[tuple[str, Callable[[bytes, Random], bytes]], ...] = (
    ("truncated", _truncated),
    ("bytes flipped", _flipped),
    ("bad UTF-8 inserted", _inserted(b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80")),
    ("control characters inserted", _inserted(b"\0", b"\x1b[2J", b"\r")),
    ("nested deeply", lambda content, random: random.choice((b"[", b'{"a":', b"-")) * _DEEP + content),
    ("byte order mark", lambda content, random: random.choice((b"\xef\xbb\xbf", b"\xff\xfe")) + content),
    ("CRLF", lambda content, _: content.replace(b"\n", b"\r\n")),
    ("empty", lambda *_: b""),
    ("blank", lambda *_: b"\n \n"),
    ("null", lambda *_: b"null"),
    ("random bytes", lambda _, random: random.randbytes(1000)),
    ("doubled", lambda content, _: content + content),
)


# ---- values --------------------------------------------------------------------------------------------------------


def _json(path: Path, random: Random) -> str:
    content = json.loads(path.read_text(encoding="utf-8"))
    way, text = _changed(content, random)
    path.unlink()
    path.write_text(text, encoding="utf-8")
    return way


def _changed(content: Any, random: Random) -> tuple[str, str]:
    """Change one value of a JSON document and return the way and the new text."""
    places = list(_places(content))
    parent, key = random.choice(places) if places else ([content], 0)
    way = random.choice(("value", "value", "value", "value", "value", "removed", "added", "twice", "deep"))
    old = parent[key]
    if way == "value":
        parent[key] = random.choice(_VALUES)
    elif way == "removed":
        del parent[key]
    elif way == "added" and isinstance(parent, dict):
        parent[random.choice(("x", "", "\ud800", "__class__", "quantization_config", "auto_map"))] = old
    elif way == "added":
        parent.append(old)
    else:
        parent[key] = "@"
    text = json.dumps(content, indent=1)
    if way == "twice" and isinstance(parent, dict):
        return way, text.replace('"@"', f"{json.dumps(old)}, {json.dumps(key)}: {json.dumps(random.choice(_VALUES))}")
    if way == "deep":
        return way, text.replace('"@"', "[" * _DEEP + "]" * _DEEP)
    return f"{way} of {key!r}: {str(parent[key])[:40] if way == 'value' else ''}", text.replace('"@"', json.dumps(old))


def _places(content: Any) -> Any:
    """Yield each container with each of its keys, but few items of a long list."""
    if isinstance(content, dict):
        keys: Any = list(content)
    elif isinstance(content, list):
        keys = range(min(len(content), 5))
    else:
        return
    for key in keys:
        yield content, key
        yield from _places(content[key])


def _json_lines(path: Path, random: Random) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    place = random.randrange(len(lines))
    way, lines[place] = _changed(json.loads(lines[place]), random)
    lines[place] = lines[place].replace("\n", "")
    path.unlink()
    path.write_text("\n".join(lines), encoding="utf-8")
    return way


def _words(path: Path, random: Random) -> str:
    """Change the value of one line in a file of lines "key = value" or "key: value"."""
    lines = path.read_text(encoding="utf-8").splitlines()
    place = random.randrange(len(lines))
    way = random.choice(("value", "value", "value", "removed", "twice"))
    separator = next((each for each in (" = ", ": ", " ") if each in lines[place]), "")
    if way == "removed":
        del lines[place]
    elif way == "twice":
        lines.insert(place, lines[place])
    else:
        new = json.dumps(random.choice(_VALUES)).replace("null", "").replace("NaN", "nan").replace("Infinity", "inf")
        lines[place] = lines[place].partition(separator)[0] + separator + new if separator else new
    path.unlink()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"line {place + 1} {way}"


# ---- safetensors ---------------------------------------------------------------------------------------------------


def _safetensors(path: Path, random: Random) -> str:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), bytearray(content[8 + length :])
    names = [name for name in header if name != "__metadata__"]
    entry = header[random.choice(names)]
    begin, end = entry["data_offsets"]
    way, change = random.choice(_HEADERS)
    if way == "value":
        way, text = _changed(header, random)
    else:
        change(entry, header, names, random)
        if way == "not finite":
            number = random.choice((float("nan"), float("inf"), -float("inf")))
            at = begin + 4 * random.randrange((end - begin) // 4)
            data[at : at + 4] = struct.pack("<f", number)
        text = json.dumps(header)
    path.unlink()
    size = random.choice((0, 2**40, 2**64 - 1)) if way == "length of header" else len(text.encode())
    path.write_bytes(size.to_bytes(8, "little") + text.encode() + data)
    return way


def _offsets(entry: Any, *new: int) -> None:
    entry["data_offsets"] = list(new)


_Change = Callable[[Any, Any, list[str], Random], Any]
_HEADERS: tuple[tuple[str, _Change], ...] = (
    ("value", lambda *_: None),
    ("value", lambda *_: None),
    ("not finite", lambda *_: None),
    ("not finite", lambda *_: None),
    ("length of header", lambda *_: None),
    ("overlap", lambda entry, header, names, random: entry.update(header[random.choice(names)])),
    ("negative offset", lambda entry, *_: _offsets(entry, -4, entry["data_offsets"][1])),
    ("reversed offsets", lambda entry, *_: _offsets(entry, *reversed(entry["data_offsets"]))),
    ("offset beyond the end", lambda entry, *_: _offsets(entry, entry["data_offsets"][0], 2**40)),
    ("fractional offset", lambda entry, *_: _offsets(entry, 0.5, entry["data_offsets"][1])),
    ("dtype", lambda entry, _, __, random: entry.update(dtype=random.choice(("I32", "F64", "BOOL", "F8_E4M3", "X")))),
    ("shape", lambda entry, *_: entry.update(shape=[*reversed(entry["shape"]), 1])),
    ("huge shape", lambda entry, *_: entry.update(shape=[2**40, 2**40])),
    ("negative shape", lambda entry, *_: entry.update(shape=[-each for each in entry["shape"]])),
)


# ---- SQLite --------------------------------------------------------------------------------------------------------

_CELLS = (
    "'text'", "''", "x'ff00'", "CAST(x'eda080' AS TEXT)", "CAST(x'ff' AS TEXT)", "-1", "0", "9e999", "-9e999",
    "9223372036854775807", "1.5", "NULL", "'{'", "'{}'", "'[1, \"\\ud800\"]'", "'null'", "zeroblob(1000000)",
)  # fmt: skip


def _sqlite(path: Path, random: Random) -> str:
    connection = sqlite3.connect(path)
    connection.isolation_level = None
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    filled = [name for name in tables if connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone()]
    table = random.choice(filled)
    column = random.choice([row[1] for row in connection.execute(f"PRAGMA table_info({table})")])
    cell = random.choice(_CELLS)
    statement = random.choice(
        (
            *(8 * [f"UPDATE OR IGNORE {table} SET {column} = {cell}"]),
            *(8 * [f"UPDATE OR IGNORE {table} SET {column} = {cell} WHERE rowid IN (SELECT max(rowid) FROM {table})"]),
            f"DROP TABLE {table}",
            f"DELETE FROM {table}",
            f"ALTER TABLE {table} RENAME COLUMN {column} TO other",
            f"UPDATE wina_schema_version SET version_num = {random.choice(_CELLS)}",
            "DELETE FROM wina_schema_version",
        )
    )
    try:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("PRAGMA writable_schema = ON")
        nullable = f"UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = '{table}'"
        connection.execute(nullable)
        connection.close()
        connection = sqlite3.connect(path)  # which reads the tables anew
        connection.isolation_level = None
        connection.execute(statement)
    except sqlite3.Error as error:
        return f"{statement} ({error})"
    finally:
        connection.close()
    return statement


def _pages(path: Path, random: Random) -> str:
    content = bytearray(path.read_bytes())
    begin = random.randrange(0, len(content), 4096)
    content[begin : begin + 4096] = random.choice((bytes(4096), random.randbytes(4096)))
    path.write_bytes(content)
    return f"page {begin // 4096} overwritten"


def _foreign(path: Path, _random: Random) -> str:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (name TEXT)")
    connection.commit()
    connection.close()
    return "another program's database"


# ---- kinds of file -------------------------------------------------------------------------------------------------


def _special(path: Path, random: Random) -> str:
    name, make = random.choice(_SPECIAL)
    path.unlink()
    make(path)
    return name


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # its whole path may be longer than a socket's can be
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


_SPECIAL: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("missing", lambda _: None),
    ("FIFO", lambda path: os.mkfifo(path)),
    ("socket", _socket),
    ("folder", lambda path: path.mkdir()),
    ("/dev/zero", lambda path: path.symlink_to("/dev/zero")),
    ("/dev/null", lambda path: path.symlink_to("/dev/null")),
    ("/proc/self/mem", lambda path: path.symlink_to("/proc/self/mem")),
    ("/proc/self/status", lambda path: path.symlink_to("/proc/self/status")),
    ("loop of links", lambda path: path.symlink_to(path)),
    ("5 GiB", _sparse),
)
_OF_SUFFIX: dict[str, list[Callable[[Path, Random], str]]] = {
    ".json": [_json],
    ".jsonl": [_json_lines],
    ".safetensors": [_safetensors],
    ".sqlite": [*(8 * [_sqlite]), _pages, _pages, _foreign],
    ".parquet": [_bytes],
    ".curves": [_bytes],
    ".gguf": [_bytes],
}
