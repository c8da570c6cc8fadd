"""Asking what CI says of a task's commit."""

from __future__ import annotations

from pydantic import Field

from shiftboss.protocol.bus import BusRequest, TaskId
from shiftboss.protocol.ci import CiJob
from shiftboss.protocol.fields import Answer


class ShowCiRequest(BusRequest):
    bead_id: TaskId


class ShowCiAnswer(Answer):
    """Of the commit that was pushed last: `state` is waiting, running, passed or failed; none:
    nothing was pushed. A job that failed has the end of its log."""

    bead_id: str
    state: str
    repo: str | None = None
    sha: str | None = None
    run_id: str | None = None
    jobs: list[CiJob] = Field(default=[])


# What a forge gets for telling us something.


class WebhookAnswer(Answer):
    """`looks`: at how many commits the server looks now because of it."""

    looks: int
