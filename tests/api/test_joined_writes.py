"""JoinedWrites sends the same bytes in the same order, an answer's head with its body."""

import asyncio
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from service.api.connections.joined_writes import SMALL_BYTES, JoinedWrites


class Recorder:
    """Stands for the transport of a connection."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.ended = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.ended = True

    write_eof = close

    def get_write_buffer_size(self) -> int:
        return 3


def _joined(recorder: Recorder, loop: asyncio.AbstractEventLoop) -> JoinedWrites:
    return JoinedWrites(cast("Any", recorder), loop)


STEPS = st.lists(
    st.binary(min_size=1, max_size=8)
    | st.just(b"x" * (SMALL_BYTES + 1))
    | st.sampled_from(["flush", "turn"]),
    max_size=12,
)


@given(STEPS)
def test_no_byte_is_lost_or_moved(steps: list[bytes | str]) -> None:
    recorder = Recorder()

    async def write() -> None:
        joined, written = _joined(recorder, asyncio.get_running_loop()), 0
        for step in steps:
            if isinstance(step, bytes):
                joined.write(step)
                written += len(step)
                held = joined.get_write_buffer_size() - recorder.get_write_buffer_size()
                assert sum(map(len, recorder.sent)) + held == written
            elif step == "flush":
                joined.flush()
            else:
                await asyncio.sleep(0)
        joined.close()

    asyncio.run(write())
    assert b"".join(recorder.sent) == b"".join(each for each in steps if isinstance(each, bytes))
    assert recorder.ended


def test_a_head_leaves_with_its_body_or_at_the_end_of_the_turn() -> None:
    recorder = Recorder()

    async def write() -> None:
        joined = _joined(recorder, asyncio.get_running_loop())
        joined.write(b"head")
        joined.write(b"body")
        assert recorder.sent == [b"headbody"]
        joined.write(b"head of a stream")
        assert recorder.sent == [b"headbody"]
        await asyncio.sleep(0)
        assert recorder.sent == [b"headbody", b"head of a stream"]
        joined.write(b"left")
        joined.write_eof()
        assert recorder.sent[-1] == b"left"

    asyncio.run(write())


def test_other_methods_are_those_of_the_transport() -> None:
    async def ask() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        _, writer = await asyncio.open_connection(*address)
        joined = JoinedWrites(writer.transport, asyncio.get_running_loop())
        assert joined.get_extra_info("peername") == address
        assert not joined.is_closing()
        joined.abort()
        assert joined.is_closing()
        server.close()

    asyncio.run(ask())
