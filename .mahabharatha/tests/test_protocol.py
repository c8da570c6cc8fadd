import pytest
from protocol import WorkerProtocol, WorkerState, CONTEXT_THRESHOLD
from protocol import check_context_threshold
from messages import MessageType, Message

def test_initial_state():
    wp = WorkerProtocol('w1')
    assert wp.state == WorkerState.IDLE

def test_valid_transition_path():
    wp = WorkerProtocol('w1')
    path = [
        WorkerState.ASSIGNED,
        WorkerState.EXECUTING,
        WorkerState.VERIFYING,
        WorkerState.SELF_REVIEW,
        WorkerState.COMPLETE
    ]
    for state in path:
        assert wp.transition(state)

def test_invalid_transition():
    wp = WorkerProtocol('w1')
    # Can't skip ASSIGNED
    assert not wp.transition(WorkerState.EXECUTING)

def test_context_threshold():
    assert check_context_threshold(0.69) == False
    assert check_context_threshold(0.70) == True
    assert check_context_threshold(0.85) == True

def test_blocked_recovery():
    wp = WorkerProtocol('w1')
    wp.transition(WorkerState.ASSIGNED)
    wp.transition(WorkerState.EXECUTING)
    wp.transition(WorkerState.BLOCKED)
    # Can recover from blocked
    assert wp.transition(WorkerState.EXECUTING)
