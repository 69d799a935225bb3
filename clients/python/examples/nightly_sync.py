"""
Keeps a copy of all contacts in an SQLite file, which can be read at any time. Run it every night, or every minute:

    SALES_DATA_URL=https://… SALES_DATA_KEY=sda_… python nightly_sync.py contacts.db

The first run exports all contacts. Later runs read only what has changed since. It can be killed at any moment: rows and
cursor are committed together, so the next run continues from there. Needs the scope contacts:read.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from sales_data_client import CursorExpiredError, SalesData
from sales_data_client.types import ContactExport

# What the copy has of each contact. `external_id` is the id in your own system.
FIELDS = ("id", "external_id", "first_name", "last_name", "work_email", "job_title")
TYPES = ["contact.created", "contact.updated", "contact.deleted"]


def save(db: sqlite3.Connection, contact: Mapping[str, Any]) -> None:
    values = [contact.get(field) for field in FIELDS]
    db.execute(f"insert or replace into contacts values ({', '.join('?' for _ in FIELDS)})", values)


def save_cursor(db: sqlite3.Connection, cursor: str) -> None:
    db.execute("delete from feed")
    db.execute("insert into feed values (?)", (cursor,))


def stored_cursor(db: sqlite3.Connection) -> str | None:
    row = db.execute("select cursor from feed").fetchone()
    return None if row is None else str(row[0])


def lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    if rest:
        yield rest


def sync_all(api: SalesData, db: sqlite3.Connection) -> str:
    """Replaces the copy by an export. Returns where to continue."""
    # The cursor is from before the export: what changes meanwhile is read once more, and nothing is missed.
    cursor = api.call("list_events", body={"from": "now"}).next_cursor
    assert cursor is not None
    asked: ContactExport = {"format": "ndjson", "fields": list(FIELDS)}
    with db:
        db.execute("delete from contacts")
        for line in lines_of(api.export_contacts(asked)):
            save(db, json.loads(line))
        save_cursor(db, cursor)
    return cursor


def sync_changes(api: SalesData, db: sqlite3.Connection, cursor: str) -> None:
    """Reads what has changed. A program that runs all the time leaves out `wait` and the return: then this never ends."""
    for page in api.events.follow(cursor, types=TYPES, expand=True, limit=500, wait=0):
        with db:
            for event in page.events:
                # With `expand` each event has its contact as it is now, or None if it has been deleted since.
                if record := event.get("record"):
                    save(db, record)
                else:
                    db.execute("delete from contacts where id = ?", (event["data"]["id"],))
            save_cursor(db, page.cursor)
        if not page.has_more:
            return


def main() -> None:
    db = sqlite3.connect(sys.argv[1])
    db.execute(f"create table if not exists contacts ({', '.join(FIELDS)}, primary key (id))")
    db.execute("create index if not exists contacts_own_id on contacts (external_id)")
    db.execute("create table if not exists feed (cursor text not null)")
    with SalesData(os.environ["SALES_DATA_URL"], os.environ["SALES_DATA_KEY"]) as api:
        try:
            sync_changes(api, db, stored_cursor(db) or sync_all(api, db))
        except CursorExpiredError:
            # The last run was too long ago, or the service was restored from a backup.
            print("Changes were missed: exporting all contacts anew")
            sync_changes(api, db, sync_all(api, db))
    print(f"The copy has {db.execute('select count(*) from contacts').fetchone()[0]} contacts")


main()
