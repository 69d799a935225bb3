"""Guarantees of the Python client under faults and odd input, against the real service and against servers that misbehave."""

import json
import socket
import sys
import threading
import unittest
from collections.abc import Callable
from typing import Any

import httpx
from sales_data_client import (
    ConnectionFailedError,
    CursorExpiredError,
    InsufficientCreditsError,
    NotFoundError,
    PayloadTooLargeError,
    ResponseError,
    SalesData,
    SalesDataError,
    SpendCapExceededError,
    TimedOutError,
    UnavailableError,
    ValidationError,
)
from sales_data_client._errors import CLASSES, error_of
from sales_data_client.types import Event

base_url, key, contract = sys.argv[1:]
ID = "00000000-0000-4000-8000-000000000000"


class Server:
    """Sends the given bytes to each request, then closes the connection; with `is_stalling` it keeps the connection open."""

    def __init__(self, sent: bytes, *, is_stalling: bool = False) -> None:
        self.requests = 0
        self.sent, self._is_stalling = sent, is_stalling
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            data = connection.recv(65_536)
            while data and b"\r\n\r\n" not in data:
                data += connection.recv(65_536)
            self.requests += 1
            connection.sendall(self.sent)
            if self._is_stalling:
                self._open.append(connection)
            else:
                connection.close()


def response(status: int, body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d Said" % status, b"content-length: %d" % len(body), b"connection: close", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def person(number: int) -> dict[str, Any]:
    return {"first_name": "A", "last_name": "B", "phone_numbers": [], "work_email": f"faults{number}@example.com"}


class Faults(unittest.TestCase):
    def raised(self, kind: type[Exception], call: Callable[[], Any]) -> Any:
        with self.assertRaises(kind) as caught:
            call()
        return caught.exception

    def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(self) -> None:
        for wrong in ("sda_secret\n", "sda_secret…", "", "sda secret"):
            error = self.raised(ValueError, lambda: SalesData(base_url, wrong))
            self.assertNotIn("secret", str(error))
            self.raised(ValueError, lambda: SalesData(base_url, session=wrong))
        self.raised(ValueError, lambda: SalesData("127.0.0.1:3000", key))

    def test_a_loop_that_deletes_skips_nothing(self) -> None:
        with SalesData(base_url, key) as api:
            for name in "vwxyz":
                api.create_product({"name": name, "price": 1, "unit": "piece"})
            for one in api.iter_products({"paginate": {"limit": 2}}):
                api.delete_product(one["id"])
            self.assertEqual(api.list_products({}), [])

    def test_the_text_of_an_error_names_the_first_faults(self) -> None:
        broken: Any = {"last_name": 5, "birth_year": "x"}
        with SalesData(base_url, key) as api:
            error = self.raised(ValidationError, lambda: api.create_contact(broken))
        named = "; ".join(f"{one['path']}: {one['message']}" for one in error.errors[:3])
        self.assertEqual(len(error.errors), 5)
        self.assertEqual(str(error), f"5 values are not valid ({named}; and 2 more)")

    def test_every_declared_status_of_an_error_has_a_class(self) -> None:
        with open(contract, encoding="utf8") as file:
            paths = json.load(file)["paths"]
        declared = {int(s) for methods in paths.values() for one in methods.values() for s in one["responses"] if s >= "400"}
        self.assertEqual(declared - CLASSES.keys(), set())

    def test_a_spend_cap_that_is_reached(self) -> None:
        for code, kind in [("spend_cap_exceeded", SpendCapExceededError), ("insufficient_credits", InsufficientCreditsError)]:
            error = error_of(httpx.Response(402, json={"code": code, "message": "m", "available": 2}))
            self.assertIs(type(error), kind)
            self.assertEqual(error.body["available"], 2)
        self.assertIs(type(error_of(httpx.Response(402, json={"code": []}))), InsufficientCreditsError)
        self.assertTrue(issubclass(SpendCapExceededError, InsufficientCreditsError))

    def test_a_batch_that_stops_says_what_was_written_and_can_be_sent_again(self) -> None:
        people = [person(number) for number in range(1_003)]
        people[1_002]["job_title"] = "x" * 6 * 2**20
        with SalesData(base_url, key) as api:
            send = lambda: api.batch("create_contact_batch", people, idempotency_key="load-1")
            first, again = self.raised(PayloadTooLargeError, send), self.raised(PayloadTooLargeError, send)
            self.assertEqual([one["index"] for one in first.results], list(range(1_002)))
            self.assertEqual({one["status"] for one in first.results}, {"created"})
            self.assertEqual(again.results, first.results)
            self.assertEqual(api.count_contacts()["pagination"]["total_records"], 1_002)

    def test_a_call_is_repeated_unless_it_has_an_effect_of_its_own_each_time(self) -> None:
        calls: list[tuple[int, Callable[[SalesData], Any]]] = [
            (1, lambda api: api.rotate_api_key(ID, {})),
            (1, lambda api: api.delete_contact(ID)),
            (1, lambda api: api.update_contact(ID, {}, if_match='"1"')),
            (1, lambda api: api.update_opportunity(ID, {"products": {"remove": [ID]}})),
            (2, lambda api: api.update_contact(ID, {})),
            (2, lambda api: api.start_import(ID)),
        ]
        for times, call in calls:
            # The database may have been lost while the service committed. After 429 nothing was executed.
            for sent, expected in ((b"", times), (response(503, b"{}", b"retry-after: 0"), times), (response(429, b"{}", b"retry-after: 0"), 2)):
                server = Server(sent)
                with SalesData(server.url, key, max_retries=1) as api:
                    self.raised(SalesDataError, lambda: call(api))
                self.assertEqual(server.requests, expected)

    def test_a_file_that_stops_coming_ends_in_an_error(self) -> None:
        server = Server(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nid\r\n", is_stalling=True)
        with SalesData(server.url, key, timeout=0.5) as api:
            pieces = api.export_contacts({"format": "csv"})
            self.assertEqual(next(pieces), b"id\r\n")
            self.raised(TimedOutError, lambda: next(pieces))

    def test_a_file_that_is_cut_off_ends_in_an_error(self) -> None:
        server = Server(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nid\r\n\r\n")
        with SalesData(server.url, key) as api:
            self.raised(ConnectionFailedError, lambda: list(api.export_contacts({"format": "csv"})))

    def test_odd_responses_are_errors_of_the_package(self) -> None:
        def said(sent: bytes) -> Any:
            with SalesData(Server(sent).url, key, max_retries=0) as api:
                return self.raised(SalesDataError, api.get_credits)

        for text in (b"<html>", b"null", b"[" * 100_000):
            said(response(200, text))
        page = said(response(404, b"<html>"))
        self.assertEqual((type(page), page.code, page.body), (NotFoundError, "http_404", "<html>"))
        for wait in (b"\xb2", b"-1", b"Mon, 23 Nov 2026 06:00:00 GMT"):
            busy = said(response(503, b"{}", b"retry-after: " + wait))
            self.assertEqual((type(busy), busy.retry_after), (UnavailableError, None))
        odd = said(response(400, b'{"code": null, "message": null, "errors": [null, {"path": 1}, {"path": "/a", "message": "b"}]}'))
        self.assertEqual((type(odd), odd.code, odd.errors), (ValidationError, "http_400", [{"path": "/a", "message": "b"}]))
        moved = said(response(302, b"", b"location: http://127.0.0.1:1/"))
        self.assertEqual((type(moved), moved.status), (ResponseError, 302))

    def test_the_feed_is_followed_from_a_cursor(self) -> None:
        def make(name: str) -> str:
            return api.create_product({"name": name, "price": 1, "unit": "piece"})["data"]["id"]

        with SalesData(base_url, key) as api:
            cursor = next(api.events.follow(start="now", wait=0)).cursor
            made = [make(name) for name in "abcde"]
            seen: list[Any] = []
            for is_more in (True, True, False):  # each reader handles one page and stops
                page = next(api.events.follow(cursor, limit=2, types=["product.created"]))
                self.assertEqual(page.has_more, is_more)
                cursor = page.cursor
                seen += [event["data"]["id"] for event in page.events]
            self.assertEqual(seen, made)

            def stop(events: list[Event], _: str) -> None:
                for event in events:
                    raise KeyError((event["record"] or {})["name"])

            threading.Timer(0.5, lambda: make("f")).start()
            error = self.raised(KeyError, lambda: api.events.follow(cursor, handler=stop, expand=True))
            self.assertEqual(error.args, ("f",))

    def test_who_follows_the_feed_waits_for_the_service_if_it_has_responded_before(self) -> None:
        feed = Server(response(200, b"[]", b"x-next-cursor: c1", b"x-more: true"))
        with SalesData(feed.url, key, max_retries=0) as api:
            pages = api.events.follow()
            self.assertEqual(next(pages).cursor, "c1")
            feed.sent = response(503, b"{}")
            threading.Timer(0.5, lambda: setattr(feed, "sent", response(200, b"[]", b"x-next-cursor: c2"))).start()
            page = next(pages)
            self.assertEqual((page.events, page.cursor, page.has_more), ([], "c2", False))
            feed.sent = response(410, b'{"code": "cursor_expired", "message": "Export anew"}')
            self.raised(CursorExpiredError, lambda: next(pages))
        for status, kind in ((503, UnavailableError), (401, ResponseError)):
            with SalesData(Server(response(status, b"{}")).url, key, max_retries=0) as api:
                self.raised(kind, lambda: next(api.events.follow()))


unittest.main(argv=sys.argv[:1])
