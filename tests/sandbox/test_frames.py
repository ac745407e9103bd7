"""Messages between the SDK and a supervisor, however the kernel splits them."""

from __future__ import annotations

import os
import socket
import struct
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.sandbox.boxside import frames
from swe_sdk.sandbox.boxside.frames import Decoder, FrameError, encode

SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=10)
MESSAGES = st.dictionaries(st.text(max_size=5), SCALARS | st.lists(SCALARS, max_size=3), max_size=4)


@given(st.lists(MESSAGES, max_size=5), st.data())
def test_messages_come_out_whole_however_they_are_split(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    stream = b"".join(encode(message) for message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    decoder, found = Decoder(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoder.feed(stream[start:end])
        while (message := decoder.next()) is not None:
            found.append(message)
    assert found == messages
    assert decoder.next() is None


def test_undecodable_names_travel() -> None:
    decoder = Decoder()
    decoder.feed(encode({"path": os.fsdecode(b"/x\xff\n")}))
    message = decoder.next()
    assert message is not None
    assert os.fsencode(message["path"]) == b"/x\xff\n"


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b'"text"', b"{", b"\xff", b"", b"{}{}"])
def test_what_is_no_message_is_refused(body: bytes) -> None:
    decoder = Decoder()
    decoder.feed(struct.pack("!I", len(body)) + body)
    with pytest.raises((FrameError, ValueError)):
        decoder.next()


def test_an_absurd_length_is_refused_before_it_is_waited_for() -> None:
    decoder = Decoder()
    decoder.feed(b"\xff\xff\xff\xff")
    with pytest.raises(FrameError, match="4294967295"):
        decoder.next()


def test_what_no_peer_would_take_is_not_sent() -> None:
    with pytest.raises(FrameError):
        encode({"argv": "x" * frames.MAX_FRAME_BYTES})


def test_descriptors_come_with_their_message_and_are_closed_if_nobody_takes_them() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = os.pipe()
    with ours, theirs:
        large = {"op": "a", "filler": "x" * 500_000}  # more than a socket holds
        sender = threading.Thread(target=frames.send_blocking, args=(ours, frames.encode(large), (reader, writer)))
        sender.start()
        decoder = Decoder()
        while (message := decoder.next()) is None:
            decoder.feed(*frames.receive(theirs, 4096))
        sender.join()
        assert message["op"] == "a"
        taken = decoder.take_fds()
        assert len(taken) == 2
        os.write(taken[1], b"through the copy")
        assert os.read(reader, 100) == b"through the copy"
        assert all(not os.get_inheritable(fd) for fd in taken)
        for fd in (*taken, reader, writer):
            os.close(fd)
        assert decoder.take_fds() == []


def test_a_decoder_that_is_given_up_leaves_no_descriptor_open() -> None:
    ours, theirs = socket.socketpair()
    before = len(os.listdir("/proc/self/fd"))
    with ours, theirs:
        with open(os.devnull, "rb") as file:
            frames.send_blocking(ours, frames.encode({"op": "a"}), (file.fileno(),))
        decoder = Decoder()
        decoder.feed(*frames.receive(theirs, 4096))
        assert len(os.listdir("/proc/self/fd")) == before + 1
        decoder.close()
        assert len(os.listdir("/proc/self/fd")) == before
