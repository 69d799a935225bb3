"""The client."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Unpack

from ._errors import SalesDataError, TimedOutError
from ._events import Feed
from ._generated.calls import OPERATIONS, Batch, Calls
from ._generated.schema import Import, ServiceJob
from ._imports import ImportOptions, ImportResult, import_file
from ._transport import UNEXPECTED, Upload

#: Maximum number of items in one call of a batch, and the largest body that is sent (the service takes 5 MiB).
MOST_ITEMS, MOST_BYTES = 1_000, int(4.5 * 2**20)


class SalesData(Calls):
    """A client of the Sales Data API. It has a method for every operation. Close it, or use it in a `with` block."""

    _operations = OPERATIONS

    @property
    def events(self) -> Feed:
        """The feed of changes."""
        return Feed(self, self._timeout)

    def __enter__(self) -> SalesData:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def batch(
        self,
        name: Batch,
        items: Iterable[Mapping[str, Any]],
        *,
        match: str | None = None,
        idempotency_key: str | None = None,
    ) -> list[dict[str, Any]]:
        """
        Sends any number of items in batches of up to 1,000. Returns what became of each item, in the order of the items;
        `index` counts from the first item. One failed item does not stop the others: look at `status`. If a call fails as
        a whole, its error is raised, and the items of earlier calls are written: `results` of the error says what became of
        them. With an idempotency key, the same items can be sent again for 24 hours without a second effect.
        """
        results: list[dict[str, Any]] = []
        for number, part in enumerate(_parts(items), 1):
            body: dict[str, Any] = {"items": part}
            if match is not None:
                body["match"] = match
            start = len(results)
            try:
                part_key = f"{idempotency_key}-{number}" if idempotency_key else idempotency_key
                answer = self.call(name, body=body, idempotency_key=part_key)
                said = answer.data.get("data") if isinstance(answer.data, dict) else None
                outcomes = said.get("results") if isinstance(said, dict) else None
                if not isinstance(outcomes, list):
                    raise SalesDataError(UNEXPECTED)
            except SalesDataError as error:
                error.results = results
                raise
            for result in outcomes:
                results.append({**result, "index": start + result["index"]})
        return results

    def wait_for_job(
        self, id: str, *, timeout: float | None = None, on_progress: Callable[[ServiceJob], None] | None = None
    ) -> ServiceJob:
        """Waits until a job is COMPLETED, FAILED or CANCELLED, and returns it. Raises TimedOutError after `timeout` seconds."""
        job: ServiceJob = self._wait_for("get_job", id, timeout, on_progress)
        return job

    def wait_for_import(
        self, id: str, *, timeout: float | None = None, on_progress: Callable[[Import], None] | None = None
    ) -> Import:
        """Waits until an import is COMPLETED, FAILED or CANCELLED, and returns it. Raises TimedOutError after `timeout` seconds."""
        state: Import = self._wait_for("get_import", id, timeout, on_progress)
        return state

    def import_contacts(self, file: Upload, **options: Unpack[ImportOptions]) -> ImportResult:
        """
        Imports contacts from a file (CSV, NDJSON or XLSX): sends it, waits until the import has ended, and returns its
        numbers (`state`). Failed records do not stop the others: `failures()` reads them. Raises ImportFailedError if the import as a whole has
        failed or was cancelled, and TimedOutError after `timeout` seconds; the import goes on then.
        """
        return import_file(self, "contacts", file, options)

    def import_companies(self, file: Upload, **options: Unpack[ImportOptions]) -> ImportResult:
        """Imports companies from a file, as `import_contacts` does contacts."""
        return import_file(self, "companies", file, options)

    def import_products(self, file: Upload, **options: Unpack[ImportOptions]) -> ImportResult:
        """Imports products from a file, as `import_contacts` does contacts."""
        return import_file(self, "products", file, options)

    def import_opportunities(self, file: Upload, **options: Unpack[ImportOptions]) -> ImportResult:
        """Imports opportunities from a file, as `import_contacts` does contacts."""
        return import_file(self, "opportunities", file, options)

    def _wait_for(
        self, name: str, id: str, timeout: float | None, on_progress: Callable[[Any], None] | None
    ) -> Any:
        end = float("inf") if timeout is None else time.monotonic() + timeout
        pause = 0.25
        while True:
            state = self.call(name, id=id).data
            if on_progress:
                on_progress(state)
            if state["status"] in ("COMPLETED", "FAILED", "CANCELLED"):
                return state
            left = end - time.monotonic()
            if left <= 0:
                raise TimedOutError(f"Still {state['status']} after {timeout} s")
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, 5)


def _parts(items: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Divides items into parts of up to 1,000 items and 4.5 MiB."""
    part: list[Mapping[str, Any]] = []
    size = 0
    for item in items:
        length = len(json.dumps(item)) + 2
        if part and (len(part) == MOST_ITEMS or size + length > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(item)
        size += length
    if part:
        yield part
