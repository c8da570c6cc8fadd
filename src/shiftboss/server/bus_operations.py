"""The operations of the bus, once for HTTP (`POST /bus/{name}`) and once for MCP (tools)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from shiftboss.coordinator.bus_desk import BusDesk
from shiftboss.errors import ShiftbossError
from shiftboss.protocol import bus
from shiftboss.protocol.fields import Answer, Request


class BusOperation(NamedTuple):
    """`call(desk, request, idempotency_key)`. `reads`: it changes nothing."""

    request: type[Request]
    answer: type[Answer]
    call: Callable[..., Awaitable[Answer]]
    summary: str
    reads: bool = False


def refusal(name: str, error: ShiftbossError) -> dict[str, object]:
    """The document's form of a refusal: a poll has an `error`, the others `success` as well."""
    said: dict[str, object] = {} if name == "poll_task" else {"success": False}
    return said | {"error": error.detail}


BUS_OPERATIONS: dict[str, BusOperation] = {
    "register_worker": BusOperation(
        bus.RegisterWorkerRequest,
        bus.RegisterWorkerAnswer,
        BusDesk.register_worker,
        "Announce a worker to the bus. Again with the same name changes nothing.",
    ),
    "poll_task": BusOperation(
        bus.PollRequest,
        bus.PollAnswer,
        BusDesk.poll_task,
        "Wait for a task until timeout_ms is over. Acknowledge what you get with ack_task.",
    ),
    "submit_task": BusOperation(
        bus.TaskRequest,
        bus.SubmitAnswer,
        BusDesk.submit_task,
        "Hand a task to the least recently used free worker, or queue it.",
    ),
    "ack_task": BusOperation(
        bus.AckRequest,
        bus.AckAnswer,
        BusDesk.ack_task,
        "Acknowledge the task that poll_task gave you, before you start with it.",
    ),
    "worker_done": BusOperation(
        bus.DoneRequest, bus.DoneAnswer, BusDesk.worker_done, "The task is done."
    ),
    "task_failed": BusOperation(
        bus.TaskFailedRequest,
        bus.TaskEndAnswer,
        BusDesk.task_failed,
        "The task failed; say why.",
    ),
    "get_status": BusOperation(
        bus.StatusRequest,
        bus.BusStatus,
        BusDesk.get_status,
        "All workers with status, current_task and idle_seconds.",
        reads=True,
    ),
    "reset_worker": BusOperation(
        bus.ResetWorkerRequest,
        bus.ResetAnswer,
        BusDesk.reset_worker,
        "Free a stuck worker; its task goes back to the queue.",
    ),
    "retry_task": BusOperation(
        bus.TaskRequest,
        bus.TaskEndAnswer,
        BusDesk.retry_task,
        "Queue a stuck or failed task again.",
    ),
    "heartbeat": BusOperation(
        bus.HeartbeatRequest,
        bus.HeartbeatAnswer,
        BusDesk.heartbeat,
        "Show a sign of life: the lease of your task starts anew.",
    ),
    "add_task": BusOperation(
        bus.AddTaskRequest,
        bus.TaskView,
        BusDesk.add_task,
        "Add a task. Submit it when it may start.",
    ),
    "cancel_task": BusOperation(
        bus.TaskRequest, bus.TaskEndAnswer, BusDesk.cancel_task, "Nobody works on it any more."
    ),
    "show_task": BusOperation(
        bus.TaskRequest, bus.TaskView, BusDesk.show_task, "What is true of a task.", reads=True
    ),
    "list_tasks": BusOperation(
        bus.ListTasksRequest,
        bus.TaskList,
        BusDesk.list_tasks,
        "The tasks in the order of their ids, a page at a time.",
        reads=True,
    ),
    "list_questions": BusOperation(
        bus.ListQuestionsRequest,
        bus.QuestionList,
        BusDesk.list_questions,
        "What blocked workers ask.",
        reads=True,
    ),
    "answer_question": BusOperation(
        bus.AnswerQuestionRequest,
        bus.QuestionView,
        BusDesk.answer_question,
        "Answer a blocked worker; it goes on with its task.",
    ),
    "send_message": BusOperation(
        bus.MessageRequest,
        bus.MessageAnswer,
        BusDesk.send_message,
        "A message of the worker protocol, such as heartbeat, progress or blocked.",
    ),
}
