"""The policy of the deployment: versions in the store, one of them in force on all servers.

A single server on a SQLite file applies its policy file when it starts, if that says something
else. Where servers share a database, the first one to have a file does; after that, only the
operator replaces the policy. The file of a later server that differs is said loudly, and not used:
two policies could let both halves of a locked chain be worked on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.deployment import policy_versions
from shiftboss.coordinator.deployment.shared_settings import SharedSettings
from shiftboss.errors import InvalidPolicy, StalePolicy
from shiftboss.evidence.survey.policy_file import PolicyText, policy_of, read_policy_text
from shiftboss.protocol.contract.contract_requests import (
    ApplyPolicyAnswer,
    ApplyPolicyRequest,
    ListPoliciesRequest,
    PolicyFileView,
    PolicyList,
    PolicyView,
    ShowPolicyRequest,
)
from shiftboss.protocol.policy import Policy
from shiftboss.rules.contract.policy_changes import policy_changes
from shiftboss.rules.deployment.records import StoredPolicy
from shiftboss.rules.documents.wording import pluralize
from shiftboss.store.port import Store

log = logging.getLogger(__name__)

_SHOWN_CHANGES = 5


class PolicyService:
    """`in_force` is the stored version that this server goes by; None: there is none. `unreadable`
    is why it goes by an older version than the stored one."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: SharedSettings,
        active: ActivePolicy,
        file: Path | None,
        on_change: Callable[[], None],
    ) -> None:
        """`file` is this server's policy file."""
        self._store = store
        self._clock = clock
        self._settings = settings
        self._active = active
        self._file = file
        self._on_change = on_change
        self.in_force: StoredPolicy | None = None
        self.unreadable: str | None = None

    # -- in force on this server

    async def load(self) -> None:
        """Put the newest stored version in force here. At the start, raises InvalidPolicy if this
        server cannot read it; later, it continues with the one that it has."""
        stored = await self._store.read(lambda tx: tx.current_policy())
        if stored is None or stored == self.in_force:
            return
        try:
            policy = await _parse(PolicyText(stored.body, stored.source))
        except InvalidPolicy as error:
            if self.in_force is None:
                raise
            self._note_unreadable(stored, error)
            return
        self._active.replace(policy, stored.version)
        self.in_force, self.unreadable = stored, None
        log.info("policy: version %d, applied by %s", stored.version, stored.applied_by)
        self._on_change()

    def _note_unreadable(self, stored: StoredPolicy, error: InvalidPolicy) -> None:
        text = f"version {stored.version} of the policy cannot be read here: {error.detail}"
        if text != self.unreadable:
            log.error(
                "%s. Version %d stays in force on this server, and no repo can be locked through "
                "it; is it older than the others?",
                text,
                self._active.version,
            )
        self.unreadable = text

    async def use_file(self) -> None:
        """Without a server: the policy that a server here would start with, if its store has
        none."""
        if self._file is not None and self.in_force is None:
            self._active.replace(await _parse(await _read(self._file)), 0)

    async def put_file(self) -> list[str]:
        """At the start, and when the files are read again: apply the file of this server, or say
        that it is not in force. The changes. Raises InvalidPolicy."""
        if self._file is None:
            return []
        text = await _read(self._file)
        policy = await _parse(text)
        changes = self._changes_to(policy)
        if not changes:
            return []
        if self._store.shared and self.in_force is not None:
            self._tell_difference(changes)
            return []
        try:
            await self._apply(text, self._active.version)
        except StalePolicy:
            # Another server was faster to put its own file.
            await self._settings.read()
            return await self.put_file()
        return [f"version {self._active.version}: {change}" for change in changes]

    def _changes_to(self, policy: Policy) -> list[str]:
        return [str(change) for change in policy_changes(self._active.settings, policy)]

    def _tell_difference(self, changes: list[str]) -> None:
        more = len(changes) - _SHOWN_CHANGES
        shown = "; ".join(changes[:_SHOWN_CHANGES]) + (f"; and {more} more" if more > 0 else "")
        log.warning(
            "%s is not in force: it has %s against version %d of the policy, which all servers on "
            "this database go by (%s). To put it in force: shiftboss policy apply %s",
            self._file,
            pluralize(len(changes), "change"),
            self._active.version,
            shown,
            self._file,
        )

    # -- requests

    async def show_policy(self, request: ShowPolicyRequest, _key: str | None = None) -> PolicyView:
        version = request.version
        if version in (None, self._active.version):
            return await self._show_in_force()
        stored = await self._store.read(lambda tx: policy_versions.version_of(tx, version or 0))
        policy = await _parse(PolicyText(stored.body, stored.source))
        return PolicyView(
            **policy_versions.view_members(stored),
            is_in_force=False,
            body=stored.body,
            policy=_as_written(policy),
        )

    async def _show_in_force(self) -> PolicyView:
        stored, policy = self.in_force, self._active.settings
        no_members = dict.fromkeys(("applied_at", "applied_by", "source", "sha256"))
        members = (
            {"version": 0, **no_members} if stored is None else policy_versions.view_members(stored)
        )
        return PolicyView(
            **members,
            is_in_force=True,
            body="" if stored is None else stored.body,
            policy=_as_written(policy),
            file=await self._show_file(),
            problem=self.unreadable,
        )

    async def _show_file(self) -> PolicyFileView | None:
        """As it is now: it may have been edited since it was read."""
        if self._file is None:
            return None
        try:
            policy = await _parse(await _read(self._file))
        except InvalidPolicy as error:
            return PolicyFileView(path=str(self._file), problem=error.detail)
        return PolicyFileView(path=str(self._file), changes=self._changes_to(policy))

    async def list_policies(
        self, request: ListPoliciesRequest, _key: str | None = None
    ) -> PolicyList:
        return await self._store.read(
            lambda tx: policy_versions.list_versions(tx, request.before, request.limit)
        )

    async def apply_policy(
        self, request: ApplyPolicyRequest, _key: str | None = None
    ) -> ApplyPolicyAnswer:
        """For the operator. It is in force on this server when it is answered, and on the others a
        moment later; until then they lock no repo."""
        text = PolicyText(request.body, request.source)
        policy = await _parse(text)
        # Without a server, a file that was never applied counts; for the history it is new.
        old = Policy() if self.in_force is None else self._active.settings
        changes = [str(change) for change in policy_changes(old, policy)]
        before = self._active.version
        stored = await self._apply(text, request.expected_version)
        return ApplyPolicyAnswer(
            success=True,
            changed=stored.version != before,
            version=stored.version,
            changes=changes,
            warnings=await self._warnings(policy),
        )

    async def _warnings(self, policy: Policy) -> list[str]:
        warnings = await self._store.read(
            lambda tx: policy_versions.locked_without_policy(tx, policy)
        )
        file = None if self._store.shared else await self._show_file()
        if file is not None and file.changes:
            warnings.append(
                f"the server's own policy file {file.path} says something else, and is applied "
                "again when the server starts: change it as well"
            )
        return warnings

    async def _apply(self, text: PolicyText, expected_version: int | None) -> StoredPolicy:
        now_ms = self._clock()
        stored = await self._store.write(
            lambda tx: policy_versions.apply(tx, text, expected_version, now_ms), partition=""
        )
        await self._settings.read_own_change()
        return stored


async def _read(path: Path) -> PolicyText:
    return await asyncio.to_thread(read_policy_text, path)


async def _parse(text: PolicyText) -> Policy:
    """In a thread: it resolves paths, and a file may be long."""
    return await asyncio.to_thread(policy_of, text)


def _as_written(policy: Policy) -> dict[str, object]:
    """Without the values that the file leaves out."""
    return policy.model_dump(mode="json", exclude_unset=True)
