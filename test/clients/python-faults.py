"""Guarantees of the Python client under faults and odd input, against the real service."""

import sys
import unittest
from collections.abc import Callable
from typing import Any

from sales_data_client import PayloadTooLargeError, SalesData
from sales_data_client.types import ContactFilters, ContactQuery

base_url, key = sys.argv[1:]


def person(number: int) -> dict[str, Any]:
    return {"first_name": "A", "last_name": "B", "phone_numbers": [], "work_email": f"faults{number}@example.com"}


class Faults(unittest.TestCase):
    def raised(self, kind: type[Exception], call: Callable[[], Any]) -> Any:
        with self.assertRaises(kind) as caught:
            call()
        return caught.exception

    def test_filters_by_custom_field_have_types(self) -> None:
        filters: ContactFilters = {"custom_fields.plan": "gold", "_or": [{"custom_fields.plan": "gold"}]}
        query: ContactQuery = {"filters": filters, "paginate": {"limit": 10}}
        with SalesData(base_url, key) as api:
            self.assertEqual(api.list_contacts(query), [])
            self.assertEqual(api.list_contacts({"filters": {"custom_fields.plan": {"contains": "x"}}}), [])

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


unittest.main(argv=sys.argv[:1])
