"""The log of a command that runs for long: level, format, destination.

A thread of its own writes the lines, so that a slow disk or terminal never holds up the event loop.
Secrets are never passed to a log; what looks like one is blotted out all the same.
"""

from __future__ import annotations

import atexit
import json
import logging
import logging.handlers
import queue
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from shiftboss.errors import ShiftbossError
from shiftboss.system.log_subject import with_subject

# A flood beyond this is dropped, and the log says how much.
LINES_WAITING_MAX: Final = 10_000

ACCESS_LOGGER: Final = "shiftboss.access"
AUDIT_LOGGER: Final = "shiftboss.audit"
# They log the address of every request: its query string, or the secret address of a webhook.
CLIENT_LOGGERS: Final = ("httpx2", "httpcore2", "httpcore")

_PRIVATE_NAMES: Final = r"(?:password|passwd|token|secret|api_?key|access_?key)"
# What the keys and tokens of well-known services begin with. The lengths keep it linear.
_KEYS: Final = (
    r"sk-[A-Za-z0-9_-]{20,200}",
    r"(?:AKIA|ASIA)[0-9A-Z]{16}",
    r"AIza[0-9A-Za-z_-]{35}",
    r"gh[pousr]_[A-Za-z0-9]{20,200}",
    r"github_pat_[A-Za-z0-9_]{20,200}",
    r"glpat-[A-Za-z0-9_-]{20,200}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-[A-Za-z0-9_-]{50,300}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,200}",
    r"[rs]k_live_[A-Za-z0-9]{20,200}",
    r"whsec_[A-Za-z0-9+/=]{16,200}",
    r"eyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,2000}",
)
# What looks like a secret: a bearer token, a token of ours, a password in an address, a variable or
# a member that is called like one, a key of a service, the address of a webhook.
_SECRETS: Final = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"',;]+"), r"\1 [hidden]"),
    (re.compile(r"\bsbt_[A-Za-z0-9_-]+"), "[hidden]"),
    (re.compile(r"(?<=://)([^/\s:@\"']*):[^@\s/\"']+@"), r"\1:[hidden]@"),
    (re.compile(rf"(?i)({_PRIVATE_NAMES}=[\"']?)[^\s&\"',;]+"), r"\1[hidden]"),
    (re.compile(rf"(?i)({_PRIVATE_NAMES}[\"']\s?:\s?[\"'])[^\"']+"), r"\1[hidden]"),
    (re.compile(rf"\b(?:{'|'.join(_KEYS)})"), "[hidden]"),
    (re.compile(r"(?<=://hooks\.slack\.com/)[^\s\"']+"), "[hidden]"),
)
# Newlines and escape sequences would forge lines, or steer the terminal of whoever reads them.
_CONTROL: Final = {number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
# Marks that change the direction of the text around them, or that nobody sees.
_MARKS: Final = {
    number: chr(number).encode("unicode_escape").decode()
    for number in (
        *(0x061C, 0x200E, 0x200F, 0xFEFF),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x2070),
        *range(0xFFF9, 0xFFFC),
        *range(0xE0000, 0xE0080),
    )
}
_ESCAPES: Final = _CONTROL | _MARKS


class CannotLog(ShiftbossError):
    code = "cannot_log"
    title = "The log cannot be written"


class LogSettings(NamedTuple):
    """`file`: instead of stderr. `audit_file`: where audit lines go as well, as JSON and whatever
    the level. `access`: a line for every request. `process`: which one, of several servers that
    share these files."""

    level: str = "warning"
    form: Literal["text", "json"] = "text"
    file: Path | None = None
    audit_file: Path | None = None
    access: bool = False
    process: int | None = None


def clean(text: str) -> str:
    """One line without secrets and without control characters."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text.translate(_ESCAPES)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        line = f"{at}Z {record.levelname} {record.name}: {clean(record.getMessage())}"
        facts: dict[str, Any] = getattr(record, "facts", {})
        line += "".join(f" {name}={_shown(value)}" for name, value in facts.items())
        # Indented: no line of a traceback can pass for a line of the log.
        return line + "".join(f"\n    {clean(each)}" for each in _traceback(self, record))


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clean(record.getMessage()),
        }
        for name, value in getattr(record, "facts", {}).items():
            document[name] = clean(value) if isinstance(value, str) else value
        traceback = _traceback(self, record)
        if traceback:
            document["exception"] = [clean(line) for line in traceback]
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str)


def _shown(value: object) -> str:
    text = clean(str(value))
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or '"' in text else text


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    if not record.exc_info:
        return []
    return formatter.formatException(record.exc_info).splitlines()


class _Queue(logging.handlers.QueueHandler):
    """Never waits: when the writer cannot keep up, lines are dropped and counted."""

    def __init__(self, lines: queue.Queue[Any]) -> None:
        super().__init__(lines)
        self._dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """The thread formats the record. Its arguments may change until then."""
        record.msg, record.args = record.getMessage(), None
        # Here, and not in the thread, is where the line is logged.
        record.facts = with_subject(getattr(record, "facts", {}))
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped:
                self.queue.put_nowait(_dropped_lines(self._dropped))
                self._dropped = 0
            self.queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1


def _dropped_lines(count: int) -> logging.LogRecord:
    text = f"{count} lines were dropped: they came faster than the log can be written"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None)


class _OnlyAudit(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.name == AUDIT_LOGGER


class _AtLeast(logging.Filter):
    """Audit lines reach the queue at any level; the log itself shows what its level allows."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self.level = level

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self.level or record.name == ACCESS_LOGGER


class _OfProcess(logging.Filter):
    """Adds to each line which of several server processes it comes from."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def filter(self, record: logging.LogRecord) -> bool:
        record.facts = {"server_process": self._number, **getattr(record, "facts", {})}
        return True


class Logs:
    """The handlers of this process."""

    def __init__(self, settings: LogSettings) -> None:
        self._settings = settings
        self._level = _AtLeast(_number(settings.level))
        self._outputs = self._open()
        lines: queue.Queue[Any] = queue.Queue(LINES_WAITING_MAX)
        self._handler = _Queue(lines)
        if settings.process is not None:
            self._handler.addFilter(_OfProcess(settings.process))
        self._listener = logging.handlers.QueueListener(
            lines, *self._outputs, respect_handler_level=False
        )
        self._listener.start()
        logging.root.addHandler(self._handler)
        self.set_level(settings.level)

    def _open(self) -> list[logging.Handler]:
        main = _output(self._settings.file)
        main.setFormatter(JsonFormatter() if self._settings.form == "json" else TextFormatter())
        main.addFilter(self._level)
        if self._settings.audit_file is None:
            return [main]
        audit = _output(self._settings.audit_file)
        audit.setFormatter(JsonFormatter())
        audit.addFilter(_OnlyAudit())
        return [main, audit]

    def set_level(self, level: str) -> None:
        number = _number(level)
        self._level.level = number
        logging.root.setLevel(number)
        shows_access = self._settings.access or number <= logging.DEBUG
        logging.getLogger(ACCESS_LOGGER).setLevel(
            logging.INFO if shows_access else logging.CRITICAL
        )
        for name in CLIENT_LOGGERS:
            logging.getLogger(name).setLevel(max(number, logging.WARNING))
        has_audit = self._settings.audit_file is not None
        logging.getLogger(AUDIT_LOGGER).setLevel(logging.INFO if has_audit else number)

    def reopen(self) -> None:
        """The files were moved away, for example by logrotate: begin new ones."""
        for output in self._outputs:
            if isinstance(output, logging.handlers.WatchedFileHandler):
                output.acquire()
                try:
                    output.reopenIfNeeded()
                finally:
                    output.release()

    def stop(self) -> None:
        logging.root.removeHandler(self._handler)
        self._listener.stop()
        for output in self._outputs:
            output.close()


def _output(path: Path | None) -> logging.Handler:
    if path is None:
        return logging.StreamHandler(sys.stderr)
    try:
        return logging.handlers.WatchedFileHandler(path, encoding="utf-8")
    except OSError as error:
        raise CannotLog(
            f"cannot write to {path}: {error.strerror}",
            field="log_file",
            hint="choose a file in a folder that exists and that this user may write to",
        ) from error


def _number(level: str) -> int:
    number: int = logging.getLevelNamesMapping()[level.upper()]
    return number


def start_plain_logs(settings: LogSettings) -> None:
    """For a process that forks: without a thread, and only until a child starts its own."""
    handler = _output(settings.file)
    handler.setFormatter(JsonFormatter() if settings.form == "json" else TextFormatter())
    logging.root.addHandler(handler)
    logging.root.setLevel(_number(settings.level))


def stop_plain_logs() -> None:
    for handler in list(logging.root.handlers):
        logging.root.removeHandler(handler)
        handler.close()


def start_logs(settings: LogSettings) -> Logs:
    """Once per process. What is logged before the process ends is written."""
    logs = Logs(settings)
    atexit.register(logs.stop)
    return logs
