"""Network ``none``: nothing but the box's own loopback, at once and for every protocol."""

from __future__ import annotations

import socket

import anyio

from swe_sdk.sandbox.contract import Box, SupportsListen
from swe_sdk.testing.check import check
from swe_sdk.testing.expect import CheckFailed, NotApplicable, require, require_equal
from swe_sdk.testing.lab import Lab, unique

CONNECT = """
if command -v python3 > /dev/null; then
  exec python3 -c 'import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 3) as s: print(s.recv(100).decode(), end="")' "$1" "$2"
fi
exec bash -c 'exec 3<>"/dev/tcp/$1/$2" && cat <&3' bash "$1" "$2"
"""
"""Connects to host $1, port $2, and prints what comes."""
CLIENTS = ("python3|bash",)


@check()
async def there_is_no_route(lab: Lab) -> None:
    """Packets have nowhere to go, but to the box itself."""
    _need_no_network(lab)
    routes = (await lab.ok(await lab.box(), "cat /proc/net/route")).stdout.splitlines()[1:]
    require_equal([line.split()[0] for line in routes], [], "interfaces with a route")


@check(tools=CLIENTS)
async def the_internet_is_refused_at_once(lab: Lab) -> None:
    """A connection fails at once instead of timing out: test suites that try the network would take for ever."""
    _need_no_network(lab)
    box = await lab.box()
    for host in ("1.1.1.1", "10.0.0.1", "169.254.169.254"):
        result = await connect(lab, box, host, 80)
        require(result[0] != 0, f"{host} was reached")
        require(result[1] < 2.5, f"the connection to {host} took {result[1]:.1f} s to fail")


@check(tools=CLIENTS)
async def listeners_of_this_machine_are_not_reached(lab: Lab) -> None:
    """A service on this machine's loopback interface, such as a notebook or a database, is another world."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code, _, output = await connect(lab, await lab.box(), "127.0.0.1", listener.getsockname()[1])
        require(code != 0 and not output and not _reached(listener), "a listener of this machine was reached")


@check(tools=("python3",))
async def abstract_sockets_of_this_machine_are_not_reached(lab: Lab) -> None:
    """Unix sockets without a file belong to the network too: a session bus is a way out."""
    name = unique()
    program = "import socket, sys; socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1]); print('reached')"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        result = await lab.run(await lab.box(), ["python3", "-c", program, name])
        require(not result.ok and not _reached(listener), "an abstract socket of this machine was reached")


@check(tools=("python3",))
async def the_loopback_interface_works(lab: Lab) -> None:
    """Programs of a box talk to each other over 127.0.0.1 and, where the kernel has it, ::1; many test suites do."""
    program = (
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 0)) as s, socket.create_connection(s.getsockname()) as c:\n"
        "    s.accept()[0].sendall(b'hello'); print(c.recv(5).decode())\n"
    )
    require_equal((await lab.ok(await lab.box(), ["python3", "-c", program])).stdout, "hello\n", "what was received")


@check(tools=("python3",))
async def boxes_do_not_share_ports(lab: Lab) -> None:
    """The same port can be served in two boxes, and neither reaches the other's."""
    first, second = await lab.box(), await lab.box()
    serve = (
        "import socket; s = socket.create_server(('127.0.0.1', 45678)); open('/tmp/started', 'w').close()\n"
        "while True: s.accept()[0].sendall(b'first')\n"
    )
    await lab.ok(first, ["sh", "-c", 'python3 -c "$1" > /dev/null 2>&1 &', "sh", serve])
    await lab.wait_for_file(first, "/tmp/started")
    require_equal((await connect(lab, first, "127.0.0.1", 45678))[2], "first", "what the box itself receives")
    require((await connect(lab, second, "127.0.0.1", 45678))[0] != 0, "a box reached a server in another box")


@check(needs=("listen",), tools=CLIENTS)
async def this_process_can_serve_inside_a_box(lab: Lab) -> None:
    """``listen`` gives a socket inside the box: model calls leave through it, although there is no network."""
    first, second = await lab.box(), await lab.box()
    port, listener = await listenable(first).listen()
    with listener:
        await served(lab, first, listener, port)
        require((await connect(lab, second, "127.0.0.1", port))[0] != 0, "another box reaches the same port")


@check(needs=("listen",))
async def a_port_can_be_chosen(lab: Lab) -> None:
    """The same port may be asked for in every box, and is the one that is given."""
    for _ in range(2):
        port, listener = await listenable(await lab.box()).listen(8123)
        with listener:
            require_equal((port, listener.getsockname()[1]), (8123, 8123), "the ports")


def _need_no_network(lab: Lab) -> None:
    if "open_network" in lab.provider.capabilities:
        raise NotApplicable("the provider says that its boxes have a network")


async def served(lab: Lab, box: Box, listener: socket.socket, port: int) -> None:
    """Require that a program of the box, which connects to ``port``, reaches ``listener``."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_answer_once, lab, listener)
        require_equal((await connect(lab, box, "127.0.0.1", port))[2], "served", "what the program received")


async def connect(lab: Lab, box: Box, host: str, port: int) -> tuple[int | None, float, str]:
    """Connect from within; exit code, seconds and what was received."""
    result = await lab.run(box, ["sh", "-c", CONNECT, "sh", host, str(port)], timeout_s=lab.settings.prompt_s)
    return result.exit_code, result.duration_s, result.stdout


def listenable(box: Box) -> SupportsListen:
    """The box, as one that can listen; a failure of the check where it cannot."""
    if not isinstance(box, SupportsListen):
        raise CheckFailed("the provider claims 'listen', but its boxes lack the method")
    return box


def _reached(listener: socket.socket) -> bool:
    """Whether somebody has connected to it."""
    listener.setblocking(False)
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


async def _answer_once(lab: Lab, listener: socket.socket) -> None:
    listener.setblocking(False)
    with lab.promptly("nobody connected to the socket inside the box"):
        await anyio.wait_readable(listener)
    with listener.accept()[0] as connection:
        connection.sendall(b"served")
