"""Lets what answers a request receive a message again that was received before it."""

from starlette.types import Message, Receive


def replayed(first: Message, receive: Receive) -> Receive:
    """Return what receives a message first that was received already, and then what follows it."""
    messages = [first]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received
