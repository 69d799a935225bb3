"""The feed of changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, overload

from ._errors import ConnectionFailedError, ResponseError, SalesDataError, TimedOutError
from ._generated.schema import Event
from ._transport import UNEXPECTED, Answer

if TYPE_CHECKING:
    from ._client import SalesData

#: Longest pause between attempts while the service is unavailable (seconds).
LONGEST_PAUSE = 30.0


@dataclass(frozen=True)
class FeedPage:
    """A page of the feed. It can be empty: nothing has happened for a while, or nothing of the types that were asked for."""

    events: list[Event]
    #: Continues after these events. Store it when they are handled, in the same transaction if possible.
    cursor: str
    #: Whether more can be read at once.
    has_more: bool


Handler = Callable[[list[Event], str], None]


class Feed:
    """The feed of changes. It stores nothing: where to continue is in the cursor of each page."""

    def __init__(self, api: SalesData, timeout: float) -> None:
        """:param timeout: maximum time for a call (seconds), so calls wait less"""
        self._api = api
        self._wait = min(20, int(timeout / 1.5))

    @overload
    def follow(
        self,
        cursor: str | None = None,
        *,
        start: str | None = None,
        types: Sequence[str] | None = None,
        expand: bool = False,
        limit: int = 100,
        wait: int | None = None,
    ) -> Iterator[FeedPage]: ...

    @overload
    def follow(
        self,
        cursor: str | None = None,
        *,
        handler: Handler,
        start: str | None = None,
        types: Sequence[str] | None = None,
        expand: bool = False,
        limit: int = 100,
        wait: int | None = None,
    ) -> NoReturn: ...

    def follow(
        self,
        cursor: str | None = None,
        *,
        handler: Handler | None = None,
        start: str | None = None,
        types: Sequence[str] | None = None,
        expand: bool = False,
        limit: int = 100,
        wait: int | None = None,
    ) -> Iterator[FeedPage]:
        """
        Reads the feed for ever, page after page: each event once, those of a record in their order. Waits while nothing
        happens, and while the service is unavailable after it has responded once. Raises CursorExpiredError if events after
        the cursor are not kept any more: read all records anew.

        :param cursor: the cursor of the last page that was handled
        :param handler: is called for each page, also for an empty one; its error ends the reading. Without it, the pages are returned
        :param start: where to begin without a cursor: `start` (the default), `now` or a time
        :param types: only events of these types; by default all that the key may read
        :param expand: whether each event has its record as it is now
        :param limit: maximum number of events in a page
        :param wait: how long the service waits for an event before it returns an empty page (seconds, at most 20)
        """
        asked: dict[str, Any] = {"expand": expand, "wait": self._wait if wait is None else wait}
        if types is not None:
            asked["types"] = list(types)
        pages = self._pages(asked, {"limit": limit}, cursor, start)
        if handler is None:
            return pages
        for page in pages:
            handler(page.events, page.cursor)
        raise AssertionError("the feed has no end")

    def _pages(
        self, asked: dict[str, Any], paginate: dict[str, Any], cursor: str | None, start: str | None
    ) -> Iterator[FeedPage]:
        read = self._read
        while True:
            body = {**asked, "paginate": paginate if cursor is None else {**paginate, "cursor": cursor}}
            if cursor is None and start is not None:
                body["from"] = start
            answer = read(body)
            if not isinstance(answer.data, list) or answer.next_cursor is None:
                raise SalesDataError(UNEXPECTED)
            cursor = answer.next_cursor
            yield FeedPage(answer.data, cursor, answer.has_more)
            read = self._read_at_last

    def _read(self, body: dict[str, Any]) -> Answer:
        return self._api.call("list_events", body=body)

    def _read_at_last(self, body: dict[str, Any]) -> Answer:
        """Repeats a call until the service is available."""
        pause = 1.0
        while True:
            try:
                return self._read(body)
            except SalesDataError as error:
                if not _is_outage(error):
                    raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _is_outage(error: SalesDataError) -> bool:
    if isinstance(error, ResponseError):
        return error.status in (429, 502, 503, 504)
    return isinstance(error, (ConnectionFailedError, TimedOutError))
