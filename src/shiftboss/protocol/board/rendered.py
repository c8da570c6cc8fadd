"""An answer whose JSON was made where it was read: off the event loop, or once for many readers."""

from __future__ import annotations

from shiftboss.protocol.fields import Answer


class RenderedAnswer(Answer):
    body: bytes


def rendered(answer: Answer) -> RenderedAnswer:
    """Without the members that say nothing, as every answer of the bus."""
    return RenderedAnswer(
        body=answer.__pydantic_serializer__.to_json(answer, exclude_defaults=True)
    )
