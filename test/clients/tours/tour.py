"""Uses every part of the client once. The project's test checks the types of this program and runs it against the real service."""

import json
import sys
import uuid
from collections.abc import Callable
from typing import Any, cast

from sales_data_client import ImportFailedError, ResponseError, SalesData, SalesDataError

base_url, lying_url, key, read_key, limited_key = sys.argv[1:]
api = SalesData(base_url, key)


def failure(call: Callable[[], Any]) -> dict[str, Any]:
    """Returns the error of a call, with its class and what tests compare."""
    try:
        call()
    except SalesDataError as error:
        seen: dict[str, Any] = {"class": type(error).__name__}
        if isinstance(error, ResponseError):
            seen |= {"status": error.status, "code": error.code, "paths": [fault["path"] for fault in error.errors]}
        return seen
    return {"class": "no error"}


# Retries: a 503, then a connection that ends after the service has written.
with SalesData(lying_url, key) as lied:
    created = lied.create_contact(
        {"first_name": "Ada", "last_name": "Lovelace", "phone_numbers": [], "work_email": "lied@example.com"}
    )

# Batches of any length, with a faulty item.
people = [
    {
        "first_name": "Ada",
        "last_name": "Lovelace",
        "phone_numbers": [],
        "external_id": f"crm-{i}",
        "work_email": "no address" if i == 1_700 else f"ada{i}@example.com",
    }
    for i in range(2_500)
]
results = api.batch("upsert_contact_batch", people, match="external_id")

# All pages.
emails = {contact["work_email"] for contact in api.iter_contacts({"filters": {"first_name": "ada"}})}
for name in ("One", "Two", "Three"):
    api.create_contact_list({"name": name})

# A change against a version.
id = created["data"]["id"]
etag = api.call("get_contact", id=id).etag
api.update_contact(id, {"job_title": "Countess"}, if_match=etag)

# The one read whose answer for an unknown id is null.
nobody = api.get_company(str(uuid.uuid4()))

# Jobs and imports.
# Only a dry run returns an estimate instead of a job.
started = cast("dict[str, str]", api.verify_emails({"emails": [{"email": "ada@invalid"}, {"email": "x"}]}))
job_id = started["id"]
states: list[str] = []
job = api.wait_for_job(job_id, timeout=60, on_progress=lambda state: states.append(state["status"]))
companies = api.import_companies(b"type,company_name\ncustomer,Acme\n,Nobody\npartner,\n", mode="create", format="csv", timeout=60)
try:
    api.import_contacts("nonsense\n1\n", mode="create", format="csv", timeout=60)
    unreadable = "nothing"
except ImportFailedError as error:
    unreadable = error.state["status"]
exported = b"".join(api.export_contacts({"format": "ndjson", "fields": ["work_email"]}))

silent = SalesData(base_url, key, timeout=0.0001, max_retries=0)
refused = SalesData("http://127.0.0.1:1", key, max_retries=1)

errors = [
    failure(lambda: api.create_contact({"first_name": "A", "last_name": "B", "phone_numbers": [], "work_email": "x"})),
    failure(lambda: SalesData(base_url, "sda_wrong").list_contacts()),
    failure(lambda: SalesData(base_url, read_key).create_contact({"first_name": "A", "last_name": "B", "phone_numbers": [], "work_email": "a@example.com"})),
    failure(lambda: api.update_contact(id, {"external_id": "crm-1"})),
    failure(lambda: SalesData(base_url, limited_key).import_contacts("first_name,last_name\nA,A\nB,B\nC,C\n", mode="create")),
    failure(lambda: silent.list_contacts()),
    failure(lambda: refused.list_contacts()),
]

print(
    json.dumps(
        {
            "created": created["data"]["id"],
            "batch": {"length": len(results), "failed": [one["index"] for one in results if one["status"] == "failed"]},
            "emails": len(emails),
            "nobody": nobody,
            "lists": [one["name"] for one in api.iter_contact_lists({"limit": 2})],
            "job": {"status": job["status"], "processed": job["processed"], "last": states[-1]},
            "companies": [companies.state["created"], [one["line"] for one in companies.failures()]],
            "unreadable": unreadable,
            "exported": len(exported.splitlines()),
            "errors": errors,
        }
    )
)
