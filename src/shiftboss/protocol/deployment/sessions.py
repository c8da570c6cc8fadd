"""Requests and responses about logging in to the page."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from shiftboss.protocol.fields import NO_NUL, Answer, Request, SwarmId


class CreateLoginRequest(Request):
    """The session is for the caller, with the same limits. `swarm_id`: what the page opens."""

    is_about_caller: ClassVar[bool] = True

    swarm_id: SwarmId | None = None


class LoginLink(Answer):
    """`url` opens the page. Its fragment is the code, which can be used once."""

    url: str = Field(repr=False)
    code: str = Field(repr=False)
    expires_at: int


class LoginRequest(Request):
    code: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)]


class LoginAnswer(Answer):
    """The session is in a cookie, and nowhere in the answer."""

    name: str
    role: str
    expires_at: int


class LogoutRequest(Request):
    pass


class LogoutAnswer(Answer):
    """Not `ended`: there was no session."""

    ended: bool


class SessionView(Answer):
    """Not `logged_in`: the caller has no token, and may do what everybody may. The page offers
    actions only to those who are logged in. `name` and `role` are None for a stranger."""

    logged_in: bool
    name: str | None
    role: str | None
    can_read: bool
    can_steer: bool
    can_operate: bool
    swarm_id: str | None
    version: str
    started_at: str
    server_time: int
