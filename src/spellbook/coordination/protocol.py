"""The requests of a worker and the answers to them."""

from shiftboss.protocol.packets import (
    CompleteAnswer,
    CompleteRequest,
    ErrorAnswer,
    ErrorRequest,
    ProgressAnswer,
    ProgressRequest,
    RegisterAnswer,
    RegisterRequest,
)
from shiftboss.protocol.swarms import (
    CreateSwarmAnswer,
    CreateSwarmRequest,
    SwarmStatus,
    WorkerView,
)

RegisterResponse = RegisterAnswer
ProgressResponse = ProgressAnswer
CompleteResponse = CompleteAnswer
ErrorResponse = ErrorAnswer
SwarmCreateResponse = CreateSwarmAnswer
WorkerStatus = WorkerView

__all__ = [
    "CompleteAnswer",
    "CompleteRequest",
    "CompleteResponse",
    "CreateSwarmAnswer",
    "CreateSwarmRequest",
    "ErrorAnswer",
    "ErrorRequest",
    "ErrorResponse",
    "ProgressAnswer",
    "ProgressRequest",
    "ProgressResponse",
    "RegisterAnswer",
    "RegisterRequest",
    "RegisterResponse",
    "SwarmCreateResponse",
    "SwarmStatus",
    "WorkerStatus",
]
