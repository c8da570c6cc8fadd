"""The operations of the bus: `POST /bus/{name}` over HTTP, and a tool of the same name over MCP."""

from __future__ import annotations

from shiftboss.coordinator.bus.service import BusService
from shiftboss.errors import ShiftbossError
from shiftboss.protocol import bus, questions
from shiftboss.rules.access.roles import Permission
from shiftboss.server.operations.board import BOARD_OPERATIONS
from shiftboss.server.operations.contract import CONTRACT_OPERATIONS
from shiftboss.server.operations.deployment import DEPLOYMENT_OPERATIONS
from shiftboss.server.operations.handoffs import HANDOFF_OPERATIONS
from shiftboss.server.operations.history import HISTORY_OPERATIONS
from shiftboss.server.operations.operation import Operation
from shiftboss.server.operations.runs import RUN_OPERATIONS


def refusal(name: str, error: ShiftbossError) -> dict[str, object]:
    """A refusal as the bus protocol puts it: `error`, and the member that says whether the call had
    its effect. A poll has none."""
    members: dict[str, object] = {} if name == "poll_task" else {"success": False}
    if name == "submit_task":
        members["dispatched"] = False
    return members | {"error": error.detail}


BUS_OPERATIONS: dict[str, Operation] = {
    "register_worker": Operation(
        bus.RegisterWorkerRequest,
        bus.RegisterWorkerAnswer,
        BusService.register_worker,
        "Register a worker on the bus. Repeating it with the same name changes nothing.",
        Permission.WORK,
    ),
    "poll_task": Operation(
        bus.PollRequest,
        bus.PollAnswer,
        BusService.poll_task,
        "Wait for a task, at most timeout_ms. Acknowledge the task with ack_task, or at once with "
        "ack.",
        Permission.WORK,
        waits=True,
    ),
    "submit_task": Operation(
        bus.TaskRequest,
        bus.SubmitAnswer,
        BusService.submit_task,
        "Hand a task to the least recently used free worker, or queue it.",
        Permission.SPAWN,
    ),
    "ack_task": Operation(
        bus.AckRequest,
        bus.AckAnswer,
        BusService.ack_task,
        "Acknowledge the task from poll_task before you start it.",
        Permission.WORK,
    ),
    "worker_done": Operation(
        bus.DoneRequest,
        bus.DoneAnswer,
        BusService.worker_done,
        "Report that the task is done. If it has a handoff, the server verifies the commit first. "
        "With poll, wait for the next task.",
        Permission.WORK,
        waits=True,
    ),
    "task_failed": Operation(
        bus.TaskFailedRequest,
        bus.FailedAnswer,
        BusService.task_failed,
        "Report that the task failed, with the reason. With poll, wait for the next task.",
        Permission.WORK,
        waits=True,
    ),
    "return_task": Operation(
        bus.ReturnTaskRequest,
        bus.TaskEndAnswer,
        BusService.return_task,
        "Give a task back that you have not begun. It is queued again, and has not failed.",
        Permission.WORK,
    ),
    "get_status": Operation(
        bus.StatusRequest,
        bus.BusStatus,
        BusService.get_status,
        "Show all workers with status, current_task and idle_seconds.",
        Permission.READ,
        reads=True,
    ),
    "reset_worker": Operation(
        bus.ResetWorkerRequest,
        bus.ResetAnswer,
        BusService.reset_worker,
        "Free a stuck worker. Its task goes back to the queue.",
        Permission.STEER,
    ),
    "retry_task": Operation(
        bus.TaskRequest,
        bus.TaskEndAnswer,
        BusService.retry_task,
        "Queue a stuck or failed task again, or bring a cancelled one back (where spawning is "
        "restricted: only the operator).",
        Permission.STEER,
    ),
    "heartbeat": Operation(
        bus.HeartbeatRequest,
        bus.HeartbeatAnswer,
        BusService.heartbeat,
        "Show a sign of life. This renews the lease of your task.",
        Permission.WORK,
    ),
    "add_task": Operation(
        bus.AddTaskRequest,
        bus.AddTaskAnswer,
        BusService.add_task,
        "Add a task. Submit it when it may start, or at once with submit.",
        Permission.SPAWN,
    ),
    "add_tasks": Operation(
        bus.AddTasksRequest,
        bus.AddTasksAnswer,
        BusService.add_tasks,
        "Add up to 1,000 tasks, all of them or none, and submit them with submit.",
        Permission.SPAWN,
    ),
    "cancel_task": Operation(
        bus.CancelTaskRequest,
        bus.TaskEndAnswer,
        BusService.cancel_task,
        "Cancel a task. retry_task brings it back.",
        Permission.STEER,
    ),
    "show_task": Operation(
        bus.TaskRequest,
        bus.TaskView,
        BusService.show_task,
        "Show a task.",
        Permission.READ,
        reads=True,
    ),
    "find_task": Operation(
        bus.FindTaskRequest,
        bus.SwarmsOfTask,
        BusService.find_task,
        "Find the swarms that have a task of this id.",
        Permission.READ,
        reads=True,
    ),
    "why_task": Operation(
        bus.TaskRequest,
        bus.WhyAnswer,
        BusService.why_task,
        "Tell why a task is where it is: what it waits for, and the command that helps.",
        Permission.READ,
        reads=True,
    ),
    "list_tasks": Operation(
        bus.ListTasksRequest,
        bus.TaskList,
        BusService.list_tasks,
        "List the tasks in the order of their ids, one page at a time.",
        Permission.READ,
        reads=True,
    ),
    "list_questions": Operation(
        questions.ListQuestionsRequest,
        questions.QuestionList,
        BusService.list_questions,
        "List the questions of blocked workers.",
        Permission.READ,
        reads=True,
    ),
    "answer_question": Operation(
        questions.AnswerQuestionRequest,
        questions.QuestionView,
        BusService.answer_question,
        "Answer a blocked worker, which then continues with its task.",
        Permission.STEER,
    ),
    "send_message": Operation(
        questions.MessageRequest,
        questions.MessageAnswer,
        BusService.send_message,
        "Send a message of the worker protocol, such as heartbeat, progress or blocked.",
        Permission.WORK,
    ),
    **HANDOFF_OPERATIONS,
    **CONTRACT_OPERATIONS,
    **RUN_OPERATIONS,
    **HISTORY_OPERATIONS,
    **DEPLOYMENT_OPERATIONS,
    **BOARD_OPERATIONS,
}
