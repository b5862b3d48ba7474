"""What is done about periods, disputes and budgets: each act of ``settlement_ports`` over the open store, with who may do it.

The trick to know: roles are checked here too, not only at the route, so that the command line and the network obey one rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from steelyard.app.notifying import deliver, target_of
from steelyard.app.settlement_settings import WebhookSetting
from steelyard.app.settlement_views import Style, Views
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import NotFound, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import parse_instant
from steelyard.settlement import budgets, disputes
from steelyard.settlement.closing import CloseRequest, close, report_json
from steelyard.settlement.documents import Format
from steelyard.settlement.drilling import find_line
from steelyard.settlement.notices import add_notice
from steelyard.settlement.registers import statement_rows
from steelyard.settlement.rules import SettlementRules
from steelyard.store import Store
from steelyard.surfaces.shared.settlement_ports import Act, Look

CLOSERS: Final = ("finance", "admin")


@dataclass(frozen=True, slots=True)
class Office:
    """What acts need beside the store."""

    directory: Path
    rules: SettlementRules
    style: Style
    formats: tuple[Format, ...]
    webhook: WebhookSetting | None
    clock: Clock


class Acts:
    """All acts over an open store."""

    def __init__(self, store: Store, office: Office) -> None:
        self._store = store
        self._office = office

    def act(self, act: Act) -> dict[str, Any]:
        """Do it. Raises UsageError where it is refused."""
        kinds: Mapping[str, Callable[[Act], dict[str, Any]]] = {
            "close": self._close,
            "dispute_open": self._open,
            "dispute_decide": self._decide,
            "budget_set": self._set,
            "budget_approve": self._approve,
            "notify": self._notify,
        }
        return kinds[act.kind](act)

    def _close(self, act: Act) -> dict[str, Any]:
        _need(act, CLOSERS)
        accepted = {str(code): str(reason) for code, reason in dict(act.body.get("accepted", {})).items()}
        if accepted:
            _need(act, self._office.rules.approvers.get("waiver", CLOSERS))
        office = self._office
        request = CloseRequest(
            act.key or "", _actor(act), bool(act.body.get("shadow", False)), accepted, office.formats, office.style.now
        )
        documents = office.style.written(office.style.now)
        report = close(self._store, office.directory, office.rules, request, documents, office.clock)
        found = report_json(report)
        if self._office.webhook is None:
            return found
        add_notice(self._store, report, target_of(self._office.webhook))
        told = deliver(self._store, self._office.webhook, self._office.clock)
        return {
            **found,
            "notices": [each.to_json() for each in told if each.label == report.label and each.shadow == report.shadow],
        }

    def _open(self, act: Act) -> dict[str, Any]:
        line_id, number = str(act.body["line"]), act.body.get("number")
        with self._store.reader() as view:
            views = Views(
                view, self._office.directory, self._office.rules, self._office.style, self._office.clock.now()
            )
            for label in dict.fromkeys(
                row.label for row in reversed(statement_rows(view, None, act.tenant)) if not row.shadow
            ):
                _scope, found = views.found(Look("statements", label, act.tenant))
                line = find_line([each for each in found if number is None or each.number == number], line_id)
                if line is not None:
                    break
            else:
                raise NotFound(_("no closed statement has a line {line}").format(line=repr(line_id[:40])))
        request = disputes.OpenRequest(
            line_id,
            str(act.body["reason"]),
            str(act.body["owner"]),
            parse_instant(str(act.body["deadline_at"])),
            _actor(act),
        )
        now = self._office.clock.now()
        return {"dispute": disputes.open_dispute(self._store, line.statement, request, now).to_json(now)}

    def _decide(self, act: Act) -> dict[str, Any]:
        _need(act, self._office.rules.approvers.get("dispute", CLOSERS))
        now, amount = self._office.clock.now(), act.body.get("amount_micro")
        decision: Literal["accept", "reject"] = "accept" if act.body["decision"] == "accept" else "reject"
        found = disputes.decide(
            self._store, act.key or "", decision, None if amount is None else int(amount), str(act.body.get("reason", "")), _actor(act), now
        )  # fmt: skip
        return {"dispute": found.to_json(now)}

    def _set(self, act: Act) -> dict[str, Any]:
        _need(act, CLOSERS)
        wanted = budgets.Budget(
            str(act.body["tenant"]), str(act.body["period"]), 0, int(act.body["amount_micro"]), str(act.body["currency"]), "proposed", _actor(act),
            self._office.clock.now(), None, None,
        )  # fmt: skip
        return {"budget": budgets.budget_json(budgets.set_budget(self._store, self._office.rules, wanted, act.role))}

    def _approve(self, act: Act) -> dict[str, Any]:
        _need(act, self._office.rules.approvers.get("budget", CLOSERS))
        key = (str(act.body["tenant"]), str(act.body["period"]), int(act.body["version"]))
        found = budgets.approve(self._store, self._office.rules, key, _actor(act), act.role, self._office.clock.now())
        return {"budget": budgets.budget_json(found)}

    def _notify(self, act: Act) -> dict[str, Any]:
        _need(act, CLOSERS)
        if self._office.webhook is None:
            raise UsageError(_("nobody is to be told: name a URL in money.webhook of the settings"))
        return {"notices": [each.to_json() for each in deliver(self._store, self._office.webhook, self._office.clock)]}


def _need(act: Act, roles: tuple[str, ...]) -> None:
    if act.role not in roles:
        raise UsageError(
            _("this needs one of the roles {roles}; found {role}").format(roles=", ".join(roles), role=act.role)
        )


def _actor(act: Act) -> str:
    if not act.actor:
        raise UsageError(_("say who does it"))
    return act.actor[:200]
