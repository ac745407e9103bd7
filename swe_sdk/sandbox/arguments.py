"""Arguments of the public sandbox: a wrong one is told by its name, and not by what breaks on it deep inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import get_args

from swe_sdk.errors import InputError
from swe_sdk.sandbox.contract import Limits, Network, Snapshot

PROVIDER = ("name", "capabilities", "create")
"""What a provider has at least."""
_Fits = Callable[[object], bool]


def require(**arguments: object) -> None:
    """``InputError`` for the first that is not what arguments of its name are."""
    for name, value in arguments.items():
        fits, wanted = _ARGUMENTS[name]
        if not fits(value):
            told = f" ({type(value).__name__})" if name in _PRIVATE else f"={value!r:.200}"
            raise InputError(f"{name}{told} does not fit", remedy=f"give {wanted}")


def encoded(text: str, encoding: str = "utf-8") -> bytes:
    """Text for a sandbox; ``InputError`` where it has characters that the encoding has not."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise InputError(f"the text cannot be written: {error}", remedy="give bytes, or another encoding") from None


def _one_of(*kinds: type) -> _Fits:
    return lambda value: isinstance(value, kinds)


def _optional(fits: _Fits) -> _Fits:
    return lambda value: value is None or fits(value)


def _is_command(value: object) -> bool:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(isinstance(word, str) for word in value)
    return isinstance(value, str)


def _is_variables(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)


def _is_encoding(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(" ".encode(value))
    except (LookupError, ValueError):
        return False


def _is_provider(value: object) -> bool:
    is_one = all(hasattr(value, name) for name in PROVIDER) and not isinstance(value, type)
    return is_one or isinstance(value, str)


_is_path = _one_of(str, PathLike)
_is_number = _one_of(int)
_PATH = "a path, as text or a Path"
_PRIVATE = frozenset({"data", "env", "stdin", "text"})
"""May hold secrets, and is in no error."""
_ARGUMENTS: dict[str, tuple[_Fits, str]] = {
    "command": (_is_command, 'a shell line, or a list of words: "ls -l" or ["ls", "-l"]'),
    "cwd": (_optional(_is_path), _PATH),
    "data": (_one_of(bytes, bytearray, memoryview), "bytes; write_text takes text"),
    "encoding": (_is_encoding, 'the name of a text encoding, such as "utf-8"'),
    "env": (_optional(_is_variables), 'a dictionary of texts, such as {"CI": "1"}'),
    "limits": (_optional(_one_of(Limits)), "swe.Limits(...), such as swe.Limits(memory_mib=512)"),
    "local": (_is_path, _PATH),
    "mode": (_is_number, "the permission bits as a number, such as 0o644"),
    "network": (lambda value: value in get_args(Network), " or ".join(map(repr, get_args(Network)))),
    "on_output": (_optional(callable), "a function of a stream's name and bytes"),
    "on_progress": (_optional(callable), "a function of a text"),
    "output_bytes": (_is_number, "a number of bytes"),
    "output_file": (_optional(_is_path), _PATH),
    "path": (_is_path, _PATH),
    "port": (_is_number, "a number; 0 for any free port"),
    "provider": (_is_provider, "a name, such as 'local', or a provider"),
    "remote": (_is_path, _PATH),
    "snapshot": (_optional(_one_of(str, Snapshot)), "what snapshot() returned, or its id"),
    "stdin": (_optional(_one_of(str, bytes, bytearray, memoryview)), "text or bytes"),
    "text": (_one_of(str), "text; write_bytes takes bytes"),
    "timeout_s": (_optional(_one_of(int, float)), "a number of seconds"),
    "user": (_optional(_one_of(str)), 'the name of a user, such as "root"'),
}
