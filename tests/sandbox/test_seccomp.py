"""The filter as the kernel runs it, by an interpreter of our own, on every call that there is."""

from __future__ import annotations

import errno

import pytest

from swe_sdk.sandbox.boxside import seccomp

_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
machines = pytest.mark.parametrize("machine", sorted(_AUDIT))


def run(machine: str, number: int, *arguments: int, audit: int | None = None) -> int:
    """0 where the call is allowed, else the error that it gets."""
    data = {0: number, 4: _AUDIT[machine] if audit is None else audit}
    data |= {16 + 8 * index: argument for index, argument in enumerate((*arguments, *[0] * (6 - len(arguments))))}
    loaded, program, at = 0, seccomp.program(machine), 0
    while True:
        code, if_true, if_false, operand = program[at]
        if code == 0x06:
            return 0 if operand == _ALLOW else operand & ~_ERROR
        if code == 0x20:
            loaded, at = data[operand], at + 1
        else:
            holds = {0x15: loaded == operand, 0x35: loaded >= operand, 0x45: bool(loaded & operand)}[code]
            at += 1 + (if_true if holds else if_false)


def numbers(machine: str) -> dict[str, int]:
    return {"x86_64": seccomp._X86_64, "aarch64": seccomp._AARCH64}[machine]


@machines
def test_what_is_not_named_is_allowed(machine: str) -> None:
    named = set(numbers(machine).values())
    assert not [number for number in range(463) if number not in named and run(machine, number)]


@machines
def test_what_is_named_is_refused(machine: str) -> None:
    for name, number in numbers(machine).items():
        if name not in seccomp._BY_ARGUMENT:
            missing = name == "clone3" or name.startswith("io_uring")
            assert run(machine, number) == (errno.ENOSYS if missing else errno.EPERM), name


@machines
@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("socket", (1,), 0),
        ("socket", (2,), 0),
        ("socket", (10,), 0),
        ("socket", (16,), 0),
        ("socket", (40,), errno.EAFNOSUPPORT),
        ("socketpair", (1,), 0),
        ("socketpair", (38,), errno.EAFNOSUPPORT),
        ("ioctl", (0, 0x5412), errno.EPERM),
        ("ioctl", (0, 0x541C), errno.EPERM),
        ("ioctl", (0, 0x5413), 0),
        ("fcntl", (0, 1024), errno.EPERM),
        ("fcntl", (0, 1040), errno.EPERM),
        ("fcntl", (0, 3), 0),
        ("clone", (0x01200011,), 0),
        ("clone", (0x10000000,), errno.EPERM),
        ("clone", (0x02000000,), errno.EPERM),
        ("setpriority", (0, 5), 0),
        ("setpriority", (0, 1), errno.EPERM),
        ("setpriority", (2, 5), errno.EPERM),
        ("ioprio_set", (1, 5), 0),
        ("ioprio_set", (3, 5), errno.EPERM),
        ("personality", (0x0040000,), 0),
        ("personality", (8,), errno.EPERM),
        ("prlimit64", (1,), errno.EPERM),
        ("prlimit64", (0,), 0),
        ("sched_setaffinity", (1,), errno.EPERM),
        ("sched_setaffinity", (7,), 0),
    ],
)
def test_calls_that_their_arguments_decide(machine: str, name: str, arguments: tuple[int, ...], error: int) -> None:
    assert run(machine, numbers(machine)[name], *arguments) == error


@machines
def test_calls_that_are_younger_than_the_list_are_missing(machine: str) -> None:
    assert {run(machine, number) for number in range(463, 600)} == {errno.ENOSYS}


@machines
def test_another_way_of_calling_the_kernel_is_missing(machine: str) -> None:
    assert run(machine, 3, audit=0x40000003) == errno.ENOSYS


def test_the_other_numbering_of_x86_is_missing() -> None:
    assert run("x86_64", 0x40000000) == errno.ENOSYS
