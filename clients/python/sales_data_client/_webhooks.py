"""Verification of webhooks (Standard Webhooks 1.0)."""

import base64
import binascii
import hashlib
import hmac
import json
import time
from typing import Any, Mapping

from ._errors import SalesDataError


class WebhookVerificationError(SalesDataError):
    """A webhook that is not from the service, was changed, or was sent too long ago. Answer it with 401."""


def verify_webhook(
    body: bytes | str, headers: Mapping[str, str], secret: str, tolerance_seconds: int = 300
) -> dict[str, Any]:
    """
    Returns the event of a webhook that the service has signed. The same event can come twice and after later ones: its id,
    also in the header `webhook-id`, tells repeats.

    `body` is what was received, not parsed: exactly these bytes are signed. `secret` is the endpoint's, `whsec_…`. A webhook
    that is older than `tolerance_seconds` may have been recorded by somebody.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        id, timestamp, signatures = (given[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError as error:
        raise WebhookVerificationError(f"The webhook has no header {error.args[0]}") from None
    if not (timestamp.isascii() and timestamp.isdigit()) or abs(time.time() - int(timestamp)) > tolerance_seconds:
        raise WebhookVerificationError("The webhook was sent too long ago, or will be")
    raw = body.encode() if isinstance(body, str) else body
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise SalesDataError("The secret of a webhook endpoint begins with whsec_") from None
    signed = b"%s.%s.%s" % (id.encode(), timestamp.encode(), raw)
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    # After a rotation there are two signatures for 24 hours.
    if not any(hmac.compare_digest(one.encode(), expected.encode()) for one in signatures.split(" ")):
        raise WebhookVerificationError("The webhook is not signed with this secret")
    event: dict[str, Any] = json.loads(raw)
    return event
