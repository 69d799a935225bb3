"""Guarantees of the Python client under faults and odd input, against the real service."""

import sys
import unittest

from sales_data_client import SalesData
from sales_data_client.types import ContactFilters, ContactQuery

base_url, key = sys.argv[1:]


class Faults(unittest.TestCase):
    def test_filters_by_custom_field_have_types(self) -> None:
        filters: ContactFilters = {"custom_fields.plan": "gold", "_or": [{"custom_fields.plan": "gold"}]}
        query: ContactQuery = {"filters": filters, "paginate": {"limit": 10}}
        with SalesData(base_url, key) as api:
            self.assertEqual(api.list_contacts(query), [])
            self.assertEqual(api.list_contacts({"filters": {"custom_fields.plan": {"contains": "x"}}}), [])


unittest.main(argv=sys.argv[:1])
