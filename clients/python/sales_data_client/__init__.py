"""Client of the Sales Data API."""

from ._client import SalesData
from ._errors import (
    ApprovalRequiredError,
    AuthenticationError,
    ConflictError,
    ConnectionFailedError,
    CursorExpiredError,
    IdempotencyMismatchError,
    ImportFailedError,
    InsufficientCreditsError,
    InternalServerError,
    MethodNotAllowedError,
    NotFoundError,
    PayloadTooLargeError,
    PermissionDeniedError,
    PreconditionFailedError,
    RateLimitError,
    ResponseError,
    SalesDataError,
    SpendCapExceededError,
    TimedOutError,
    UnavailableError,
    UnsupportedMediaTypeError,
    ValidationError,
)
from ._events import Feed, FeedPage
from ._imports import ImportResult
from ._transport import Answer, Upload
from ._webhooks import WebhookVerificationError, verify_webhook

__all__ = [
    "Answer",
    "ApprovalRequiredError",
    "AuthenticationError",
    "ConflictError",
    "ConnectionFailedError",
    "CursorExpiredError",
    "Feed",
    "FeedPage",
    "IdempotencyMismatchError",
    "ImportFailedError",
    "ImportResult",
    "InsufficientCreditsError",
    "InternalServerError",
    "MethodNotAllowedError",
    "NotFoundError",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "PreconditionFailedError",
    "RateLimitError",
    "ResponseError",
    "SalesData",
    "SalesDataError",
    "SpendCapExceededError",
    "TimedOutError",
    "UnavailableError",
    "UnsupportedMediaTypeError",
    "Upload",
    "ValidationError",
    "WebhookVerificationError",
    "verify_webhook",
]
