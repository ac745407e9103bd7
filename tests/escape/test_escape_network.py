"""Attacks by way of the network: this machine's, the world's, other boxes'."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swe_sdk.sandbox.providers.local.box import LocalBox
from tests.escape.conftest import MakeBox
from tests.escape.world import World, attack, first_process

pytestmark = pytest.mark.anyio


@contextmanager
def listener(family: int, address: object) -> Iterator[socket.socket]:
    """A server of this machine that nobody must reach."""
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(address)  # type: ignore[arg-type]
        server.listen(8)
        server.setblocking(False)
        yield server


def was_reached(server: socket.socket) -> bool:
    """Whether anybody has connected."""
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


async def test_loopback_of_this_machine(box: LocalBox, user: str) -> None:
    program = """
        for port in map(int, sys.argv[1:]):
            for host in ("127.0.0.1", "127.0.0.2", "0.0.0.0", "localhost", "::1", "::ffff:127.0.0.1"):
                attempt(host, socket.create_connection, (host, port), 1)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
                attempt("datagram", datagram.sendto, b"x", ("127.0.0.1", port))
    """
    with listener(socket.AF_INET, ("127.0.0.1", 0)) as first, listener(socket.AF_INET, ("0.0.0.0", 0)) as every:
        ports = [str(server.getsockname()[1]) for server in (first, every)]
        await attack(box, program, *ports, user=user)
        assert not was_reached(first)
        assert not was_reached(every)


async def test_addresses_beyond_the_box(box: LocalBox, user: str) -> None:
    """This machine's own, the cloud's metadata service, the gateway, the world, broadcast and multicast."""
    program = """
        port = int(sys.argv[1])
        for host in [*sys.argv[2:], "169.254.169.254", "10.0.0.1", "192.168.0.1", "172.17.0.1", "1.1.1.1", "8.8.8.8",
                     "255.255.255.255", "224.0.0.1", "fe80::1%lo", "2606:4700:4700::1111", "ff02::1"]:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            for number in (port, 80, 53):
                attempt(host, socket.create_connection, (host, number), 1)
                with socket.socket(family, socket.SOCK_DGRAM) as datagram:
                    datagram.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                    attempt(host, datagram.sendto, b"x", (host, number))
        attempt("name", socket.gethostbyname, "example.com")
    """
    with listener(socket.AF_INET, ("0.0.0.0", 0)) as server:
        result = await attack(box, program, str(server.getsockname()[1]), *_own_addresses(), user=user)
        assert not was_reached(server)
    assert [line for line in result.stdout.splitlines() if "->" in line] == []


def _own_addresses() -> list[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))  # sends nothing; chooses the address that a route would use
        except OSError:
            return []
        return [probe.getsockname()[0]]


async def test_abstract_sockets_of_this_machine(box: LocalBox, world: World, user: str) -> None:
    """They have names and no files; it was by one of them that containers got out of containerd (CVE-2020-15257)."""
    program = """
        for name in sys.argv[1:]:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
                attempt("connect", socket.socket(socket.AF_UNIX, kind).connect, "\\0" + name)
                attempt("take", socket.socket(socket.AF_UNIX, kind).bind, "\\0" + name)
        print(open("/proc/net/unix").read())
    """
    with listener(socket.AF_UNIX, f"\0{world.marker}") as server:
        result = await attack(box, program, world.marker, user=user)
        assert not was_reached(server)
    assert "connect ->" not in result.stdout
    names = {line.split(" @")[1] for line in result.stdout.splitlines() if " @" in line}
    assert names <= {world.marker}, "the box sees sockets that it has not made itself"


async def test_sockets_of_another_box(make_box: MakeBox, box: LocalBox) -> None:
    other = await make_box()
    places = """
        places = [(socket.AF_UNIX, "\\0shared"), (socket.AF_INET, ("127.0.0.1", 4321)), (socket.AF_UNIX, "/tmp/s")]
    """
    server = """
        for family, address in places:
            listening = socket.socket(family)
            listening.bind(address)
            listening.listen()
            listening.settimeout(4)
            if os.fork() == 0:
                try:
                    listening.accept()
                    open("/testbed/reached", "w").close()
                except OSError:
                    pass
                os._exit(0)
    """
    await attack(other, places + server)
    program = """
        for family, address in places:
            attempt("connect", socket.socket(family).connect, address)
    """
    await attack(box, places + program)
    assert not (other.path / "top/diff/testbed/reached").exists()


def _interfaces() -> list[str]:
    """Those of this machine, but for the ones that container engines make and remove at any time."""
    folder = Path("/sys/class/net")
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted(name for name in names if not name.startswith(("veth", "br-")))


async def test_changing_networks(box: LocalBox, user: str) -> None:
    """Interfaces and routes, by netlink and by the old calls: from outside, the box still has nothing but loopback."""
    program = """
        NEWLINK, NEWADDR, NEWROUTE, DELLINK = 16, 20, 24, 17
        for protocol in (0, 4, 6, 9, 11, 12, 15, 16, 20, 21):
            try:
                netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
                netlink.bind((0, 0xFFFFFFFF if protocol in (9, 11, 15) else 0))
            except OSError as error:
                print(protocol, error)
                continue
            for kind in (NEWLINK, NEWADDR, NEWROUTE, DELLINK):
                name = struct.pack("HH8s", 12, 3, b"evil0\\0\\0\\0")
                info = struct.pack("HHHH8s", 16, 18, 12, 1, b"dummy\\0\\0\\0")
                body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + name + info
                header = struct.pack("IHHII", 16 + len(body), kind, 0x605, 1, 0)
                attempt("netlink", netlink.send, header + body)
                netlink.settimeout(0.2)
                attempt("answer", lambda: struct.unpack_from("i", netlink.recv(4096), 16))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for request in (0x8914, 0x8916, 0x8924, 0x890B, 0x89A0):
                attempt("ioctl", fcntl.ioctl, control, request, struct.pack("16sH14s", b"lo", 0x43, b""))
        for path in ("/dev/net/tun", "/dev/vhost-net", "/dev/ppp"):
            attempt(path, os.open, path, os.O_RDWR)
    """
    before = _interfaces()
    await attack(box, program, user=user)
    lines = Path(f"/proc/{first_process(box)}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in lines if line.split(":")[0].strip() == "evil0"] == []
    assert "lo" in {line.split(":")[0].strip() for line in lines}
    assert _interfaces() == before


async def test_raw_and_odd_sockets(box: LocalBox, user: str) -> None:
    """Raw packets, the hypervisor (vsock), kernel crypto, CAN, Bluetooth and so on."""
    program = """
        for family in (socket.AF_INET, socket.AF_INET6):
            for protocol in (1, 6, 17, 58, 255):
                attempt("raw", socket.socket, family, socket.SOCK_RAW, protocol)
        attempt("packet", socket.socket, 17, socket.SOCK_RAW, 0x0300)
        attempt("packet", socket.socket, 17, socket.SOCK_DGRAM, 0x0300)
        for family in (29, 31, 38, 39, 40, 41, 42, 43, 44):
            attempt("odd", socket.socket, family, socket.SOCK_STREAM, 0)
        attempt("hypervisor", lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, 1)))
        attempt("low port", lambda: socket.socket().bind(("127.0.0.1", 80)))
    """
    result = await attack(box, program, user=user)
    assert [line for line in result.stdout.splitlines() if "->" in line and not line.startswith("low port")] == []


async def test_a_build_box_and_the_hosts_network(make_box: MakeBox, world: World) -> None:
    """A box with the host's network may use it, reach the host's own servers too, and change nothing of it."""
    box = await make_box(network="host")
    program = """
        for base, _folders, files in os.walk("/proc/sys/net"):
            for name in files:
                try:
                    fd = os.open(os.path.join(base, name), os.O_WRONLY)
                except OSError:
                    continue
                print("can open", base, name)
        attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
        attempt("packet", socket.socket, 17, socket.SOCK_RAW, 0x0300)
        attempt("low port", lambda: socket.socket().bind(("127.0.0.1", 81)))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            attempt("down", fcntl.ioctl, control, 0x8914, struct.pack("16sH14s", b"lo", 0, b""))
        attempt("secret", read, sys.argv[1])
        attempt("kill", os.kill, int(sys.argv[2]), 9)
    """
    ports = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()
    result = await attack(box, program, str(world.secret), str(world.bystander.pid))
    allowed = "low port" if int(ports) <= 81 else "nothing"
    assert [line for line in result.stdout.splitlines() if "->" in line and not line.startswith(allowed)] == []
    assert "can open" not in result.stdout
    up = subprocess.run(["cat", "/sys/class/net/lo/flags"], capture_output=True, text=True).stdout
    assert not up or int(up, 16) & 1


async def test_abstract_sockets_and_a_build_box(make_box: MakeBox, world: World) -> None:
    """They belong to the network namespace, so a build box would reach the host's: a Landlock scope keeps it out."""
    if tuple(map(int, platform.release().split("-")[0].split(".")[:2])) < (6, 12):
        pytest.skip("Landlock has had this scope since Linux 6.12: see the threat model")
    box = await make_box(network="host")
    program = """
        attempt("connect", socket.socket(socket.AF_UNIX).connect, "\\0" + sys.argv[1])
        own = socket.socket(socket.AF_UNIX)
        own.bind("\\0own")
        own.listen()
        attempt("its own", socket.socket(socket.AF_UNIX).connect, "\\0own")
    """
    with listener(socket.AF_UNIX, f"\0{world.marker}") as server:
        result = await attack(box, program, world.marker)
        assert not was_reached(server)
    assert "its own -> None" in result.stdout
