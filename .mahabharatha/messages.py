"""The message types, importable flat from this folder."""

from shiftboss.protocol.messages import (AssignMessage, CompleteMessage, FailedMessage, HeartbeatMessage, Message, MessageType)

__all__ = [
    "AssignMessage",
    "CompleteMessage",
    "FailedMessage",
    "HeartbeatMessage",
    "Message",
    "MessageType",
]
