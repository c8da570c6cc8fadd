"""A small shop that is to let its customers log in with a link: what agents find and write."""

from __future__ import annotations

from typing import Final

BASE: Final = {
    ".gitignore": "__pycache__/\n",
    "settings.py": 'SHOP_URL = "https://tea.example"\nMAIL_FROM = "login@tea.example"\n',
    "test_settings.py": """\
import unittest

import settings


class SettingsTest(unittest.TestCase):
    def test_addresses_are_encrypted(self):
        self.assertTrue(settings.SHOP_URL.startswith("https://"))
""",
}

TOKENS: Final = {
    "tokens.py": '''\
"""Tokens of login links: random, and valid for fifteen minutes."""

import secrets
from dataclasses import dataclass

LIFETIME_SECONDS = 15 * 60


@dataclass(frozen=True)
class Token:
    secret: str
    made_at: float

    def is_valid(self, now):
        return 0 <= now - self.made_at < LIFETIME_SECONDS


def new_token(now):
    return Token(secrets.token_urlsafe(32), now)
''',
    "test_tokens.py": """\
import unittest

import tokens


class TokensTest(unittest.TestCase):
    def test_token_expires(self):
        token = tokens.new_token(1000)
        self.assertTrue(token.is_valid(1000))
        self.assertTrue(token.is_valid(1899))
        self.assertFalse(token.is_valid(1900))

    def test_token_is_not_valid_before_it_was_made(self):
        self.assertFalse(tokens.new_token(1000).is_valid(999))

    def test_tokens_differ(self):
        self.assertNotEqual(tokens.new_token(0).secret, tokens.new_token(0).secret)
""",
}

LIMITS: Final = {
    "limits.py": '''\
"""How many login mails one address may ask for."""

MAILS_PER_HOUR = 5
HOUR_SECONDS = 3600


class MailLimit:
    def __init__(self):
        self._asked = {}

    def allows(self, address, now):
        recent = [at for at in self._asked.get(address, []) if now - at < HOUR_SECONDS]
        if len(recent) >= MAILS_PER_HOUR:
            return False
        self._asked[address] = [*recent, now]
        return True
''',
    "test_limits.py": """\
import unittest

import limits


class MailLimitTest(unittest.TestCase):
    def test_sixth_mail_of_an_hour_is_refused(self):
        limit = limits.MailLimit()
        allowed = [limit.allows("ada@tea.example", now) for now in range(6)]
        self.assertEqual(allowed, [True] * 5 + [False])

    def test_next_hour_begins_anew(self):
        limit = limits.MailLimit()
        for now in range(5):
            limit.allows("ada@tea.example", now)
        self.assertTrue(limit.allows("ada@tea.example", 3601))
""",
}
# One mail too many: what its agent claims first.
WRONG_LIMITS: Final = {
    **LIMITS,
    "limits.py": LIMITS["limits.py"].replace(">= MAILS_PER_HOUR", "> MAILS_PER_HOUR"),
}

MAIL: Final = {
    "mail.py": '''\
"""The mail with the login link."""

import settings


def login_mail(address, token, basket=""):
    link = f"{settings.SHOP_URL}/login/{token.secret}?to={basket or 'shop'}"
    return {"from": settings.MAIL_FROM, "to": address, "text": f"Log in: {link}"}
''',
    "test_mail.py": """\
import unittest

import mail
import tokens


class LoginMailTest(unittest.TestCase):
    def test_link_leads_back_to_the_basket(self):
        sent = mail.login_mail("ada@tea.example", tokens.Token("abc", 0), "basket-7")
        self.assertEqual(sent["to"], "ada@tea.example")
        self.assertEqual(sent["text"], "Log in: https://tea.example/login/abc?to=basket-7")
""",
}

AUDIT: Final = {
    "settings.py": f'{BASE["settings.py"]}AUDIT_LOG = "/var/log/tea/logins.jsonl"\n',
    "audit.py": '''\
"""Every login as a line of JSON."""

import json


def login_line(address, device, now):
    return json.dumps({"at": now, "address": address, "device": device})
''',
    "test_audit.py": """\
import json
import unittest

import audit
import settings


class AuditTest(unittest.TestCase):
    def test_line_names_the_device(self):
        line = json.loads(audit.login_line("ada@tea.example", "phone", 7))
        self.assertEqual(line, {"at": 7, "address": "ada@tea.example", "device": "phone"})

    def test_log_has_a_place(self):
        self.assertTrue(settings.AUDIT_LOG.endswith(".jsonl"))
""",
}

SESSIONS: Final = {
    "sessions.py": '''\
"""Sessions of customers who have logged in."""

DAYS = 30
DAY_SECONDS = 24 * 60 * 60


def ends_at(started_at):
    return started_at + DAYS * DAY_SECONDS
''',
    "test_sessions.py": """\
import unittest

import sessions


class SessionsTest(unittest.TestCase):
    def test_session_lasts_thirty_days(self):
        self.assertEqual(sessions.ends_at(100), 100 + 30 * 86400)
""",
}

LOGIN_FORM: Final = {
    "form.py": '''\
"""The login form. It works without JavaScript."""

FORM = """<form method="post" action="/login">
  <label>Your mail address <input type="email" name="address" required></label>
  <button>Send me a link</button>
</form>"""
''',
    "test_form.py": """\
import unittest

import form


class FormTest(unittest.TestCase):
    def test_form_asks_for_the_address_alone(self):
        self.assertEqual(form.FORM.count("<input"), 1)
        self.assertNotIn("password", form.FORM)
""",
}

# What the agent of each task writes.
OF_TASK: Final = {
    "tokens": TOKENS,
    "limits": LIMITS,
    "mail": MAIL,
    "audit": AUDIT,
    "sessions": SESSIONS,
    "form": LOGIN_FORM,
}
