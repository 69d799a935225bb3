"""The errors that calls raise."""

from __future__ import annotations

from typing import Any

import httpx


class SalesDataError(Exception):
    """Any error of a call. All other errors of this package extend it."""

    #: In an error of `batch`: what became of the items of the calls before, in the order of the items.
    results: list[dict[str, Any]] = []


class ResponseError(SalesDataError):
    """The service answered with an error. Each status has a class of its own."""

    def __init__(
        self, status: int, body: Any, request_id: str | None, retry_after: float | None, scopes: str | None = None
    ) -> None:
        super().__init__(status, body, request_id, retry_after, scopes)  # pickle calls the class with these
        said = body if isinstance(body, dict) else {}
        self.status = status
        self.body = body
        self.code = str(said.get("code") or f"http_{status}")
        self.message = str(said.get("message") or f"The service responded with {status}")
        #: Every fault of the request: `path` is a JSON pointer to the value in the body, `message` says what is wrong.
        self.errors: list[dict[str, str]] = _faults(said.get("errors"))
        #: The id of the request in the logs of the service. Name it when you ask for help.
        self.request_id = request_id
        #: Seconds after which the call can be repeated.
        self.retry_after = retry_after
        #: Of a PermissionDeniedError: the scope that the key lacks, or several, of which one is enough.
        self.required_scopes = scopes.split() if scopes else []

    def __str__(self) -> str:
        needed = f" (needs {' or '.join(self.required_scopes)})" if self.required_scopes else ""
        return self.message + _summary(self.errors) + needed


def _faults(said: Any) -> list[dict[str, str]]:
    """Returns the faults that a response names. A proxy may answer with JSON of another form: that is left out."""
    return [
        one
        for one in (said if isinstance(said, list) else [])
        if isinstance(one, dict) and isinstance(one.get("path"), str) and isinstance(one.get("message"), str)
    ]


def _summary(faults: list[dict[str, str]]) -> str:
    """Returns the first three of several faults; nothing for one fault, which the message of the service names."""
    if len(faults) < 2:
        return ""
    named = [f"{one['path']}: {one['message']}".removeprefix(": ") for one in faults[:3]]
    others = [f"and {len(faults) - 3} more"] if len(faults) > 3 else []
    return f" ({'; '.join(named + others)})"


class ApprovalRequiredError(ResponseError):
    """202: the call is larger than the key may send, and waits for the approval of an admin.

    `body["approval"]` has its `id`, for `get_approval`, and the `url` where an admin decides. Approved, it runs by
    itself: do not send it again.
    """


class ValidationError(ResponseError):
    """400: the request is not valid. `errors` names every fault."""


class AuthenticationError(ResponseError):
    """401: the key or the session is missing, wrong, expired or revoked."""


class InsufficientCreditsError(ResponseError):
    """402: there are too few credits, or the spend cap of the key leaves too few.

    `body` has `required`, `available` and `pool`.
    """


class SpendCapExceededError(InsufficientCreditsError):
    """402 `spend_cap_exceeded`: the spend cap of the key leaves too few credits."""


class PermissionDeniedError(ResponseError):
    """403: the key lacks the scope of the operation. `required_scopes` names it."""


class NotFoundError(ResponseError):
    """404: the record does not exist, or belongs to another customer."""


class MethodNotAllowedError(ResponseError):
    """405: the service does not have the operation. It may be older than this client."""


class ConflictError(ResponseError):
    """409: the request conflicts with the state of a record."""


class CursorExpiredError(ResponseError):
    """410: the event at the cursor of the feed is not kept any more.

    Changes may be lost: read all records anew, then follow from a new cursor.
    """


class PreconditionFailedError(ResponseError):
    """412: the record has changed since the version in `if_match`."""


class PayloadTooLargeError(ResponseError):
    """413: the body is too large."""


class UnsupportedMediaTypeError(ResponseError):
    """415: the service does not take a body of this type."""


class IdempotencyMismatchError(ResponseError):
    """422: the idempotency key was used for another request."""


class RateLimitError(ResponseError):
    """429: a rate limit is used up, and stayed so during all retries."""


class InternalServerError(ResponseError):
    """500: the service failed."""


class UnavailableError(ResponseError):
    """503: the service is overloaded or a part of it is unavailable, and stayed so during all retries.

    It may have executed a call that writes.
    """


class ConnectionFailedError(SalesDataError):
    """The connection failed before the response was complete. The service may have executed the call."""


class TimedOutError(SalesDataError):
    """The call made no progress, or the job or import has not ended, within the time allowed. It may still be executed."""


class ImportFailedError(SalesDataError):
    """An import as a whole has failed or was cancelled. What it had written stays."""

    def __init__(self, message: str, state: Any) -> None:
        super().__init__(message, state)  # pickle calls the class with these
        #: The import, as `get_import` returns it.
        self.state = state

    def __str__(self) -> str:
        return str(self.args[0])


CLASSES: dict[int, type[ResponseError]] = {
    202: ApprovalRequiredError,
    400: ValidationError,
    401: AuthenticationError,
    402: InsufficientCreditsError,
    403: PermissionDeniedError,
    404: NotFoundError,
    405: MethodNotAllowedError,
    409: ConflictError,
    410: CursorExpiredError,
    412: PreconditionFailedError,
    413: PayloadTooLargeError,
    415: UnsupportedMediaTypeError,
    422: IdempotencyMismatchError,
    429: RateLimitError,
    500: InternalServerError,
    503: UnavailableError,
}


# Of errors that share their status with others.
CLASSES_BY_CODE: dict[str, type[ResponseError]] = {"spend_cap_exceeded": SpendCapExceededError}


def error_of(response: httpx.Response) -> ResponseError:
    """Returns the error in a response whose body was read."""
    try:
        body = response.json()
    except (ValueError, RecursionError):  # a proxy may answer with a page
        body = response.text
    after = response.headers.get("retry-after", "")
    seconds = float(after) if after.isascii() and after.isdigit() else None
    status = response.status_code
    by_code = CLASSES_BY_CODE.get(str(body.get("code"))) if isinstance(body, dict) else None
    kind = by_code or CLASSES.get(status, ResponseError)
    return kind(
        status, body, response.headers.get("x-request-id"), seconds, response.headers.get("x-required-scope")
    )
