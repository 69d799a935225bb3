"""Imports of whole files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NotRequired

from ._errors import ConflictError, ImportFailedError, SalesDataError
from ._generated.schema import Import, ImportFailure, ImportSettings
from ._transport import Upload

if TYPE_CHECKING:
    from ._client import SalesData


class ImportOptions(ImportSettings):
    """What is imported and how, and how the caller waits for it."""

    timeout: NotRequired[float | None]
    on_progress: NotRequired[Callable[[Import], None] | None]
    idempotency_key: NotRequired[str | None]
    content_encoding: NotRequired[str | None]


@dataclass(frozen=True)
class ImportResult:
    """An import that is COMPLETED."""

    #: The import with its numbers, as `get_import` returns it.
    state: Import
    _api: SalesData

    def failures(self) -> Iterator[ImportFailure]:
        """Reads the records that failed or have warnings, in the order of the file."""
        return self._api.iter_import_failures(self.state["id"])


def import_file(
    api: SalesData,
    kind: Literal["contacts", "companies", "products", "opportunities"],
    file: Upload,
    options: ImportOptions,
) -> ImportResult:
    """Sends a file to be imported, and waits until the import is COMPLETED."""
    settings: dict[str, Any] = dict(options)
    given = [settings.pop(name, None) for name in ("timeout", "on_progress", "idempotency_key", "content_encoding")]
    timeout, on_progress, idempotency_key, content_encoding = given
    body: Any = {**settings, "object": kind}
    begun = api.create_import(body, idempotency_key=idempotency_key)["data"]["id"]
    try:
        sent = api.upload_import_file(begun, file, content_encoding=content_encoding)
    except SalesDataError as error:
        # An earlier attempt, or an earlier run of the program, may have sent the file.
        found = api.get_import(begun) if isinstance(error, ConflictError) else None
        if found is None or found["status"] == "UPLOADING":
            if idempotency_key is None:  # with a key of the caller, the same call can send the file again
                _cancel(api, begun)
            raise
        sent = found
    # A file with more lines than the key may write does not start by itself.
    if sent["status"] == "UPLOADED":
        api.start_import(begun)
    state = api.wait_for_import(begun, timeout=timeout, on_progress=on_progress)
    if state["status"] != "COMPLETED":
        raise ImportFailedError(state["error"] or f"The import is {state['status']}", state)
    return ImportResult(state, api)


def _cancel(api: SalesData, id: str) -> None:
    """Cancels an import without a file, which would count as unfinished for a day."""
    try:
        api.cancel_import(id)
    except SalesDataError:
        pass
