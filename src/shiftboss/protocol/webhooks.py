"""What a forge gets for telling us something."""

from __future__ import annotations

from shiftboss.protocol.fields import Answer


class WebhookAnswer(Answer):
    """`looks`: at how many commits the server looks now because of it."""

    looks: int
