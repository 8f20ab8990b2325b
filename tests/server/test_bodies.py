"""The bytes of requests and answers are counted and limited."""

from __future__ import annotations

import asyncio
import gzip
import time
from types import MappingProxyType

import pytest

from dssm_tf.server.bodies import Answers, Bodies, _unpack
from dssm_tf.server.limits import Limits, Refusal


def test_bodies_count_until_they_are_answered():
    class Request:
        headers = MappingProxyType({})

        async def stream(self):
            yield b"12345"
            yield b"678"

    async def run() -> None:
        bodies = Bodies(Limits())
        async with bodies.read(Request()) as content:
            assert (content, bodies.total) == (b"12345678", 8)
        assert bodies.total == 0

    asyncio.run(run())


def test_the_oldest_incomplete_message_is_refused_if_there_are_too_many():
    async def run() -> None:
        bodies = Bodies(Limits(message_bytes=10, buffer_bytes=20))  # two messages

        async def receive(read) -> bytes:
            async with bodies.read_message(read) as message:
                return message

        async def never() -> bytes:
            await asyncio.Event().wait()
            return b""

        async def at_once() -> bytes:
            return b"12345"

        slow = [asyncio.create_task(receive(never)) for _ in range(3)]
        await asyncio.sleep(0.01)
        with pytest.raises(Refusal, match="too many bytes are being received"):
            await slow[0]
        assert await receive(at_once) == b"12345"
        with pytest.raises(Refusal):
            await slow[1]
        assert not slow[2].done()
        slow[2].cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert bodies.total == 0

    asyncio.run(run())


def test_complete_messages_count_until_they_are_computed():
    async def run() -> None:
        bodies = Bodies(Limits(message_bytes=10, buffer_bytes=20))

        async def read() -> bytes:
            return b"1234567890"

        async with bodies.read_message(read), bodies.read_message(read):
            assert bodies.total == 20
            with pytest.raises(Refusal, match="too many bytes are being received"):
                async with bodies.read_message(read):
                    pass
        assert bodies.total == 0

    asyncio.run(run())


def test_members_of_gzip_are_limited_together():
    def read(content: bytes) -> bytes:
        class Request:
            headers = MappingProxyType({"content-encoding": "gzip"})

            async def stream(self):
                yield content

        async def run() -> bytes:
            async with Bodies(Limits(message_bytes=1000)).read(Request()) as unpacked:
                return unpacked

        return asyncio.run(run())

    member = gzip.compress(b"a" * 500)
    assert read(member + member) == b"a" * 1000
    with pytest.raises(Refusal, match="the unpacked body has more than 1,000 bytes"):
        read(member + member + gzip.compress(b"b"))


def test_many_members_of_gzip_do_not_take_long():
    member = gzip.compress(b"")
    content = member * ((4 << 20) // len(member))
    started = time.monotonic()
    assert _unpack(content, 4 << 20) == b""
    assert time.monotonic() - started < 5  # seconds; minutes if each member copies the rest


def test_answers_count_until_they_are_sent():
    answers = Answers(Limits(buffer_bytes=100))
    with (
        pytest.raises(Refusal, match="the answer would have 51 bytes; at most 50 are allowed"),
        answers.hold(51),
    ):
        pass
    with (
        answers.hold(50),
        answers.hold(50),
        pytest.raises(Refusal, match="too many bytes of answers"),
        answers.hold(1),
    ):
        pass
    assert answers.total == 0
