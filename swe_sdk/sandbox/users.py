"""Users of an image, from its own /etc/passwd and /etc/group, with the rules of ``docker run --user``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from swe_sdk.errors import InputError, TransferFailed
from swe_sdk.sandbox.exec_client import RunAs

_PASSWD_FIELDS, _GROUP_FIELDS = 7, 4
_LARGEST_ID = 0xFFFF_FFFE


def resolve(user: str, passwd: str, groups: str) -> RunAs:
    """``user[:group]``, each a name or a number, as ids, with the user's further groups and HOME.

    A number needs no entry; a name does, but for root. ``InputError`` where there is none.
    """
    name, colon, group = user.partition(":")
    entry = _user(name, passwd)
    if entry is None and name != "root" and not _is_id(name):
        raise InputError(f"the box has no user {name!r}", remedy="name a user of its /etc/passwd, or give a number")
    uid = int(entry[2]) if entry else 0 if name == "root" else int(name)
    gid = _group(group, groups) if colon else int(entry[3]) if entry else 0
    further = () if colon or entry is None else _memberships(entry[0], gid, groups)
    return RunAs(uid, gid, further, _variables(entry, uid))


async def look_up(user: str, read: Callable[[str], Awaitable[bytes]]) -> RunAs:
    """The same by the files of a box, of which ``read`` gives the content."""
    return resolve(user, await _text(read, "/etc/passwd"), await _text(read, "/etc/group"))


async def _text(read: Callable[[str], Awaitable[bytes]], path: str) -> str:
    """A file that may not be there, or be anything else: a program of the box may have made it."""
    try:
        return (await read(path)).decode("utf-8", "replace")
    except TransferFailed:
        return ""


def _user(name: str, passwd: str) -> list[str] | None:
    entries = [fields for fields in _lines(passwd, _PASSWD_FIELDS) if _is_id(fields[2]) and _is_id(fields[3])]
    by_name = (fields for fields in entries if fields[0] == name)
    by_number = (fields for fields in entries if _is_id(name) and int(fields[2]) == int(name))
    return next(by_name, None) or next(by_number, None)


def _group(name: str, groups: str) -> int:
    for fields in _lines(groups, _GROUP_FIELDS):
        if fields[0] == name and _is_id(fields[2]):
            return int(fields[2])
    if not _is_id(name):
        raise InputError(f"the box has no group {name!r}", remedy="name a group of its /etc/group, or give a number")
    return int(name)


def _memberships(name: str, gid: int, groups: str) -> tuple[int, ...]:
    lines = [fields for fields in _lines(groups, _GROUP_FIELDS) if _is_id(fields[2])]
    return (gid, *(int(fields[2]) for fields in lines if name in fields[3].split(",") and int(fields[2]) != gid))


def _variables(entry: list[str] | None, uid: int) -> dict[str, str]:
    home = entry[5] if entry and entry[5].startswith("/") else "/root" if uid == 0 else "/"
    name = entry[0] if entry else "root" if uid == 0 else str(uid)
    return {"HOME": home, "USER": name, "LOGNAME": name}


def _lines(text: str, count: int) -> list[list[str]]:
    split = (line.split(":") for line in text.splitlines())
    return [fields for fields in split if len(fields) == count]


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _LARGEST_ID
