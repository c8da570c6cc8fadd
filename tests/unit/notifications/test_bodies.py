"""What receivers get."""

from __future__ import annotations

import json

import pytest

from shiftboss.notifications.programs import desktop_argv
from shiftboss.rules.notifications.bodies import desktop_text, generic_body, slack_body
from tests.unit.notifications.samples import AT_MS, message, notification

pytestmark = pytest.mark.requirement("OWN-20")

ADDRESS = "https://boss.example.com/"


def test_the_generic_body_names_the_command_and_the_page() -> None:
    body = json.loads(generic_body(message(), ADDRESS))
    assert body == {
        "type": "shiftboss.question",
        "timestamp": "2027-01-15T08:00:00Z",
        "data": {
            "message_id": "msg_1",
            "id": f"msg_{AT_MS:x}_1",
            "kind": "question",
            "at": "2027-01-15T08:00:00Z",
            "swarm_id": "login",
            "task_id": "task-1",
            "event_id": 11,
            "title": "Question: task-1 in login",
            "text": "w asks question 3: which database?",
            "command": "shiftboss questions answer 3 'your answer' --swarm login",
            "also": [],
            "link": "https://boss.example.com/#/s/login/task/task-1",
        },
    }


def test_a_digest_has_all_of_them_with_their_own_ids() -> None:
    body = json.loads(generic_body(message(notification(1), notification(2)), ADDRESS))
    assert body["type"] == "shiftboss.digest"
    assert body["data"]["count"] == 2
    assert body["data"]["message_id"] == "msg_1"
    assert len({each["id"] for each in body["data"]["notifications"]}) == 2


def test_the_page_of_a_swarm_and_names_that_are_not_plain() -> None:
    sent = message(notification(task_id=None), notification(task_id="a/b #1?"))
    links = [
        each["link"]
        for each in json.loads(generic_body(sent, "http://127.0.0.1:7432"))["data"]["notifications"]
    ]
    assert links == [
        "http://127.0.0.1:7432/#/s/login/board",
        "http://127.0.0.1:7432/#/s/login/task/a%2Fb%20%231%3F",
    ]


def test_a_test_leads_to_the_page_and_to_no_swarm() -> None:
    body = json.loads(generic_body(message(notification(kind="test", task_id=None)), ADDRESS))
    assert body["data"]["link"] == "https://boss.example.com/"


def test_slack_gets_no_markup_of_agents() -> None:
    hostile = notification(text="<!channel> <https://evil.example|click> *bold* `x` & more")
    body = json.loads(slack_body(message(hostile), ADDRESS))
    (block,) = body["blocks"]
    text = block["text"]["text"]
    assert "<!channel>" not in text
    assert "<https://evil" not in text
    assert "&lt;!channel&gt;" in text
    # Else Slack makes links of bare addresses, of #channels and of some mentions.
    assert block["text"]["verbatim"] is True
    assert "`shiftboss questions answer 3 'your answer' --swarm login`" in text
    assert text.endswith("<https://boss.example.com/#/s/login/task/task-1|Open the page>")
    assert body["text"].startswith("Question: task-1 in login: &lt;!channel&gt;")


def test_a_digest_for_slack_keeps_to_its_limits() -> None:
    sent = message(*(notification(number, text="x" * 5000) for number in range(1, 51)))
    blocks = json.loads(slack_body(sent, ADDRESS))["blocks"]
    assert len(blocks) <= 50
    assert all(len(block["text"]["text"]) <= 3000 for block in blocks)


def test_a_desktop_gets_a_title_and_a_few_lines() -> None:
    single = desktop_text(message())
    assert single.title == "Question: task-1 in login"
    assert single.text.endswith("\nshiftboss questions answer 3 'your answer' --swarm login")
    many = desktop_text(message(*(notification(number) for number in range(1, 11))))
    assert many.title == "Shiftboss: 10 notifications"
    assert many.text.splitlines()[-1] == "and 4 more: shiftboss notify list"


def test_texts_are_arguments_of_the_desktops_programs_and_never_markup_or_script() -> None:
    hostile = '" & (do shell script "id") <b>'
    linux = desktop_argv("linux", "Question: x", hostile)
    assert linux[:3] == ("notify-send", "--app-name=Shiftboss", "--")
    assert linux[3:] == ("Question: x", '" &amp; (do shell script "id") &lt;b&gt;')
    mac = desktop_argv("darwin", "Question: x", hostile)
    assert mac[-2:] == ("Question: x", hostile)
    assert not any(hostile in word for word in mac[:-1])
