"""Telling others of a close: one POST per notice, tried a few times, each try recorded.

``settlement_acts`` calls it after a close and for ``notify``. The trick to know: the token comes from a file at each try and goes nowhere but into
the header; what is kept of an answer is its status, and of an error its kind, since either may carry what was sent.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from steelyard.app.settlement_settings import WebhookSetting
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.settlement.notices import Notice, notices, record_try
from steelyard.store import Store

TOKEN_BYTES_MAX = 8_192


def target_of(setting: WebhookSetting) -> str:
    """The URL without its query, in which some put a secret."""
    parts = urlsplit(setting.url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def deliver(store: Store, setting: WebhookSetting, clock: Clock) -> list[Notice]:
    """Send what is not delivered yet, each up to ``tries`` times; all notices as they stand then. A receiver that fails raises nothing."""
    target = target_of(setting)
    for notice in notices(store):
        if notice.state == "delivered" or notice.target != target:
            continue
        for _number in range(setting.tries):
            message = _tried(notice, setting)
            record_try(store, notice.notice_id, "delivered" if message is None else "failed", clock.now(), message)
            if message is None:
                break
    return notices(store)


def _tried(notice: Notice, setting: WebhookSetting) -> str | None:
    """None where it was taken, else why not."""
    import httpx

    headers = {"Content-Type": "application/json", "Idempotency-Key": notice.notice_id}
    if setting.token_file is not None:
        headers["Authorization"] = f"Bearer {_token(setting)}"
    try:
        with httpx.Client(timeout=setting.timeout_seconds, trust_env=False, follow_redirects=False) as client:
            response = client.post(setting.url, content=notice.body.encode("ascii"), headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return type(error).__name__
    return None if 200 <= response.status_code < 300 else f"HTTP {response.status_code}"


def _token(setting: WebhookSetting) -> str:
    try:
        with open(setting.token_file or "", "rb") as stream:  # noqa: PTH123 (a bounded read)
            text = stream.read(TOKEN_BYTES_MAX).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    if not text or not text.isprintable():
        raise UsageError(_("money.webhook.token_file: expected a file with one token in it"))
    return text
