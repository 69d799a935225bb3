"""How calls are made and repeated."""

from __future__ import annotations

import json
import random
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Union
from urllib.parse import quote, urlencode

import httpx

from ._errors import ConnectionFailedError, ResponseError, SalesDataError, TimedOutError, error_of

#: A file to upload.
Upload = Union[bytes, str, IO[bytes]]

#: Message of the error for a successful response that the service does not send.
UNEXPECTED = "The response has an unexpected form. Is base_url the URL of the service?"

#: Records in a page, if the caller does not say how many.
PAGE_SIZE = 100


@dataclass(frozen=True)
class Answer:
    """The result of a call with what its headers say."""

    data: Any
    #: The version of the record that was read, for `if_match`.
    etag: str | None
    request_id: str | None
    #: The id of the change that the call made, by which it can be undone; None if no record changed. Its events have it.
    change_id: str | None
    #: The cursor of the next page; None on the last one. The feed always has one.
    next_cursor: str | None
    #: Whether the feed has more that can be read at once.
    has_more: bool
    #: Whether the service had executed this call before, and returns its stored response.
    is_replayed: bool


class Transport:
    """Makes calls. Use `SalesData`."""

    _operations: dict[str, dict[str, Any]]

    def __init__(
        self,
        base_url: str,
        key: str | None = None,
        *,
        session: str | None = None,
        timeout: float = 30,
        max_retries: int = 4,
        max_retry_seconds: float = 120,
        http: httpx.Client | None = None,
    ) -> None:
        """
        :param base_url: the URL of the service, without a path, such as `https://api.example.com`
        :param key: the API key
        :param session: the token of a session, for the operations that manage API keys
        :param timeout: the maximum time without progress in seconds: while connecting, sending, or waiting for data
        :param max_retries: how often a call is repeated at most
        :param max_retry_seconds: the maximum time for which a call is repeated, pauses included
        :param http: a client of httpx with settings of your own, such as a proxy
        """
        if not re.match("https?://.", base_url):
            raise ValueError("base_url must begin with http:// or https://")
        for name, token in (("key", key), ("session", session)):
            # Without this check, httpx rejects a line break with an error that shows the token.
            if token is not None and not re.fullmatch("[!-~]+", token):
                raise ValueError(f"{name} is empty, or has a character that is not allowed, such as a line break")
        self._base_url = base_url.rstrip("/")
        self._timeout, self._max_retries, self._max_retry_seconds = timeout, max_retries, max_retry_seconds
        self._http = http or httpx.Client()
        self._headers = {"authorization": f"X-API-Key {key}"} if key else {}
        if session and not key:
            self._headers = {"authorization": f"Bearer {session}"}

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def call(
        self,
        name: str,
        *,
        id: str | None = None,
        body: Any = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        content_encoding: str | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Calls an operation. Unlike the method with its name, it also returns what the headers of the response say."""
        operation = self._operations[name]
        headers = dict(self._headers)
        if operation["takes"]:
            headers["content-type"] = operation["takes"]
        if operation["is_keyed"]:
            # An empty key is sent, and refused: with another one the call would not be executed only once.
            headers["idempotency-key"] = str(uuid.uuid4()) if idempotency_key is None else idempotency_key
        if if_match is not None:
            headers["if-match"] = if_match
        if content_encoding is not None:
            headers["content-encoding"] = content_encoding
        is_upload = operation["takes"] == "application/octet-stream"
        content: Any = None
        if operation["takes"]:
            content = body if is_upload else json.dumps({} if body is None else body).encode()
        # Setting the same values twice changes nothing. With If-Match, the second time would be refused, and so would be
        # adding products to an opportunity or removing them.
        changes_products = isinstance(body, dict) and bool(body.get("products"))
        repeats_writes = operation["is_setting"] and if_match is None and not changes_products
        response = self._send(
            operation["method"],
            self._base_url + operation["path"].replace("{id}", quote(id or "", safe="")) + _query_of(query),
            headers,
            content,
            is_stream=operation["returns"] == "file",
            is_repeatable=operation["is_read"]
            or operation["is_keyed"]
            or repeats_writes
            or (is_upload and isinstance(content, (bytes, str))),
        )
        return Answer(
            data=self._content(operation, response),
            etag=response.headers.get("etag"),
            request_id=response.headers.get("x-request-id"),
            change_id=response.headers.get("x-change-id"),
            next_cursor=response.headers.get("x-next-cursor"),
            has_more=response.headers.get("x-more") == "true",
            is_replayed=response.headers.get("idempotency-replayed") == "true",
        )

    def _content(self, operation: dict[str, Any], response: httpx.Response) -> Any:
        if operation["returns"] == "nothing":
            return None
        if operation["returns"] == "file":
            return self._pieces(response)
        try:
            content = response.json()
        except (ValueError, RecursionError) as error:
            raise SalesDataError("The response is not JSON. Is base_url the URL of the service?") from error
        if not isinstance(content, (dict, list)) and not (content is None and operation["may_be_null"]):
            raise SalesDataError(UNEXPECTED)
        return content

    def _send(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        content: Any,
        *,
        is_stream: bool,
        is_repeatable: bool,
    ) -> httpx.Response:
        """Makes a call, and repeats it while the service is overloaded or a limit is used up, and after failed connections."""
        end = time.monotonic() + self._max_retry_seconds
        # An open file is used up after the first attempt.
        most = self._max_retries if content is None or isinstance(content, (bytes, str)) else 0
        retries = 0
        while True:
            try:
                request = self._http.build_request(
                    method, url, headers=headers, content=content, timeout=httpx.Timeout(self._timeout)
                )
                return self._attempt(request, is_stream)
            except SalesDataError as error:
                pause = _pause_after(error, retries, is_repeatable)
                if pause is None or retries >= most or time.monotonic() + pause > end:
                    raise
            time.sleep(pause)
            retries += 1

    def _attempt(self, request: httpx.Request, is_stream: bool) -> httpx.Response:
        with self._translated_errors():
            response = self._http.send(request, stream=is_stream, follow_redirects=False)
            if response.is_success and response.status_code != 202:
                return response
            response.read()
        raise error_of(response)

    def _pieces(self, response: httpx.Response) -> Iterator[bytes]:
        """Returns the body of a response in pieces. Closes the connection at the end."""
        try:
            with self._translated_errors():
                yield from response.iter_bytes()
        finally:
            response.close()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raises the errors of httpx as errors of this package."""
        try:
            yield
        except httpx.TimeoutException as error:
            raise TimedOutError(f"No progress within {self._timeout} s") from error
        except httpx.RequestError as error:
            raise ConnectionFailedError(f"The connection failed: {error}") from error

    def each(self, name: str, *, id: str | None = None, body: Any = None) -> Iterator[Any]:
        """Returns the records of all pages of a list, and reads further pages when they are needed."""
        operation = self._operations[name]
        body = dict(body or {})
        place = dict(body if operation["pages"] != "paginate" else body.get("paginate") or {})
        limit = place.setdefault("limit", PAGE_SIZE)
        while True:
            if operation["pages"] == "query":
                answer = self.call(name, id=id, query=place)
            else:
                asked = {**body, **place} if operation["pages"] == "root" else {**body, "paginate": place}
                answer = self.call(name, id=id, body=asked)
            if not isinstance(answer.data, list):
                raise SalesDataError(UNEXPECTED)
            yield from answer.data
            if answer.next_cursor is None:
                return
            if answer.next_cursor == place.get("cursor"):
                raise SalesDataError("The service returned the same page again.")  # would never end
            place = {"limit": limit, "cursor": answer.next_cursor}


def _query_of(query: Mapping[str, Any] | None) -> str:
    """Returns the query of a URL, with `?`, or an empty text."""
    said = {name: value for name, value in (query or {}).items() if value is not None}
    return f"?{urlencode(said)}" if said else ""


def _pause_after(error: SalesDataError, retries: int, is_repeatable: bool) -> float | None:
    """Returns how long to wait before the call is repeated (seconds); None if it must not be."""
    # Half of the pause is random, so that many clients do not repeat at once.
    back_off: float = min(0.5 * 2**retries, 8) * (0.5 + random.random() / 2)
    if not isinstance(error, ResponseError):
        is_unsent = isinstance(error.__cause__, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
        return back_off if is_repeatable or is_unsent else None
    # The service also sends 503 if it lost the database while this committed. So it may have executed the call.
    if error.status == 429 or (error.status == 503 and is_repeatable):
        return max(error.retry_after or 0, back_off)
    # Another attempt with the same idempotency key is still running.
    is_running = error.status == 409 and str(error).endswith("is still running")
    return back_off if is_repeatable and (is_running or error.status in (502, 504)) else None
