"""
Keeps companies, contacts and deals the same here (the table `records` of an SQLite file) and in the service, both ways:
    SALES_DATA_URL=https://… SALES_DATA_KEY=sda_… python two_way_sync.py crm.db
A change here sets `body` (null: deleted) and `dirty` = 1, and wins over one there. References are ids of the service, or
`{"external_id": own}`. It can be killed at any moment and run again. The key needs all scopes of the three, and customer:read.
"""

import json
import os
import sqlite3
import sys
from typing import Any

from sales_data_client import SalesData

KINDS = {
    "company": ("iter_companies", "company_name,industry"),
    "contact": ("iter_contacts", "first_name,last_name,work_email,company"),
    "opportunity": ("iter_opportunities", "name,stage_id,user_id_assigned,estimated_closing_date,close_date,company_id,contacts_ids"),
}
api = SalesData(os.environ["SALES_DATA_URL"], os.environ["SALES_DATA_KEY"])
db = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
db.executescript("""create table if not exists records (kind, own, id, body, dirty default 1, primary key (kind, own));
    create index if not exists records_id on records (kind, id); create table if not exists feed (cursor);""")


def run(sql: str, *given: Any) -> list[Any]:
    return db.execute(sql, given).fetchall()


def send(kind: str, match: str, what: Any) -> None:
    which = f"dirty and (id is null) = {match != 'id'} and (body is null) = {what.startswith('delete')}"
    rows = run(f"select rowid, own, id, body from records where kind = ? and {which}", kind)
    items = [{**json.loads(body or "{}"), match: id or own} for _, own, id, body in rows]
    for (rowid, own, _, body), result in zip(rows, api.batch(what, items, match=match)):
        error = result.get("error") or {}
        at = {fault["path"] for fault in error.get("errors") or []}
        if result["status"] == "failed" and (error["code"] != "not_found" or at - {"", "/id", "/external_id"}):
            print(kind, own, result["error"], file=sys.stderr)
        elif what.startswith("delete"):
            run("delete from records where rowid = ? and body is null", rowid)
        elif "id" in result:
            run("update records set id = ?, dirty = body is not ? where rowid = ?", result["id"], body, rowid)


def receive(kind: str, record: Any) -> None:
    # An empty text is refused where a name or address is.
    body = {field: record[field] for field in KINDS[kind][1].split(",") if record.get(field) != ""}
    if company := body.get("company"):
        body["company"] = company["id"] and {"id": company["id"]}
    found = run("select own from records where kind = ? and id = ?", kind, record["id"])
    own = next((row[0] for row in found), record["external_id"] or record["id"])
    sql = "on conflict do update set id = excluded.id, body = iif(dirty, body, excluded.body)"
    run(f"insert into records values (?, ?, ?, ?, 0) {sql}", kind, own, record["id"], json.dumps(body))


for kind in KINDS:
    for match, what in ("external_id", "upsert"), ("id", "update"), ("external_id", "delete"), ("id", "delete"):
        send(kind, match, f"{what}_{kind}_batch")
if not run("select * from feed"):
    cursor = api.call("list_events", body={"from": "now"}).next_cursor
    run("begin")
    for kind, (read, _) in KINDS.items():
        for record in getattr(api, read)():
            receive(kind, record)
    run("insert into feed values (?)", cursor)
    run("commit")
own_key = api.get_customer_summary()["api_key"]["id"]
for page in api.events.follow(run("select cursor from feed")[0][0], expand=True, wait=0):
    run("begin immediate")
    for event in page.events:
        kind = event["type"].split(".")[0]
        # What this key has sent comes back as an echo.
        actor = event["data"].get("actor")
        if kind not in KINDS or (actor and actor.get("id") == own_key):
            continue
        if record := event.get("record"):
            receive(kind, record)
        else:
            # What was changed here is made again, unless it was merged: its own id now names the record that stays.
            which = "true" if event["data"].get("merged_into") else "not dirty"
            for sql in f"delete from records where {which}", "update records set id = null where true":
                run(f"{sql} and kind = ? and id = ?", kind, event["data"]["id"])
    run("update feed set cursor = ?", page.cursor)
    run("commit")
    if not page.has_more:
        break
