"""The operations of the bus, once for HTTP (`POST /bus/{name}`) and once for MCP (tools)."""

from __future__ import annotations

from shiftboss.coordinator.bus.service import BusService
from shiftboss.errors import ShiftbossError
from shiftboss.protocol import bus
from shiftboss.server.operations.contract import CONTRACT_OPERATIONS
from shiftboss.server.operations.handoffs import HANDOFF_OPERATIONS
from shiftboss.server.operations.operation import Operation
from shiftboss.server.operations.runs import RUNNING_OPERATIONS


def refusal(name: str, error: ShiftbossError) -> dict[str, object]:
    """The document's form of a refusal: a poll has an `error`, the others `success` as well."""
    said: dict[str, object] = {} if name == "poll_task" else {"success": False}
    return said | {"error": error.detail}


BUS_OPERATIONS: dict[str, Operation] = {
    "register_worker": Operation(
        bus.RegisterWorkerRequest,
        bus.RegisterWorkerAnswer,
        BusService.register_worker,
        "Announce a worker to the bus. Again with the same name changes nothing.",
    ),
    "poll_task": Operation(
        bus.PollRequest,
        bus.PollAnswer,
        BusService.poll_task,
        "Wait for a task until timeout_ms is over. Acknowledge what you get with ack_task.",
        waits=True,
        prompt=True,
    ),
    "submit_task": Operation(
        bus.TaskRequest,
        bus.SubmitAnswer,
        BusService.submit_task,
        "Hand a task to the least recently used free worker, or queue it.",
    ),
    "ack_task": Operation(
        bus.AckRequest,
        bus.AckAnswer,
        BusService.ack_task,
        "Acknowledge the task that poll_task gave you, before you start with it.",
        prompt=True,
    ),
    "worker_done": Operation(
        bus.DoneRequest,
        bus.DoneAnswer,
        BusService.worker_done,
        "The task is done. With a handoff, the server looks at its commit first.",
        waits=True,
        prompt=True,
    ),
    "task_failed": Operation(
        bus.TaskFailedRequest,
        bus.TaskEndAnswer,
        BusService.task_failed,
        "The task failed; say why.",
    ),
    "get_status": Operation(
        bus.StatusRequest,
        bus.BusStatus,
        BusService.get_status,
        "All workers with status, current_task and idle_seconds.",
        reads=True,
    ),
    "reset_worker": Operation(
        bus.ResetWorkerRequest,
        bus.ResetAnswer,
        BusService.reset_worker,
        "Free a stuck worker; its task goes back to the queue.",
    ),
    "retry_task": Operation(
        bus.TaskRequest,
        bus.TaskEndAnswer,
        BusService.retry_task,
        "Queue a stuck or failed task again.",
    ),
    "heartbeat": Operation(
        bus.HeartbeatRequest,
        bus.HeartbeatAnswer,
        BusService.heartbeat,
        "Show a sign of life: the lease of your task starts anew.",
    ),
    "add_task": Operation(
        bus.AddTaskRequest,
        bus.TaskView,
        BusService.add_task,
        "Add a task. Submit it when it may start.",
    ),
    "cancel_task": Operation(
        bus.TaskRequest, bus.TaskEndAnswer, BusService.cancel_task, "Nobody works on it any more."
    ),
    "show_task": Operation(
        bus.TaskRequest, bus.TaskView, BusService.show_task, "What is true of a task.", reads=True
    ),
    "list_tasks": Operation(
        bus.ListTasksRequest,
        bus.TaskList,
        BusService.list_tasks,
        "The tasks in the order of their ids, a page at a time.",
        reads=True,
    ),
    "list_questions": Operation(
        bus.ListQuestionsRequest,
        bus.QuestionList,
        BusService.list_questions,
        "What blocked workers ask.",
        reads=True,
    ),
    "answer_question": Operation(
        bus.AnswerQuestionRequest,
        bus.QuestionView,
        BusService.answer_question,
        "Answer a blocked worker; it goes on with its task.",
    ),
    "send_message": Operation(
        bus.MessageRequest,
        bus.MessageAnswer,
        BusService.send_message,
        "A message of the worker protocol, such as heartbeat, progress or blocked.",
    ),
    **HANDOFF_OPERATIONS,
    **CONTRACT_OPERATIONS,
    **RUNNING_OPERATIONS,
}
