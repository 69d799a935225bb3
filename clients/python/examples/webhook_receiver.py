"""
Receives webhooks: verifies that each is from the service, and handles each event once.

    WEBHOOK_SECRET=whsec_… python webhook_receiver.py events.db 8080

Put it behind a proxy with TLS, and create an endpoint with its URL. The service sends an event again until it gets a status
from 200 to 299 within 15 seconds, so an event can come twice, and after later ones.
"""

import os
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from sales_data_client import WebhookVerificationError, verify_webhook

secret = os.environ["WEBHOOK_SECRET"]
db = sqlite3.connect(sys.argv[1])
db.execute("create table if not exists handled (id text primary key, at text not null default current_timestamp)")
with db:
    db.execute("delete from handled where at < datetime('now', '-40 days')")


def handle(event: dict[str, Any]) -> None:
    """Your own work. What it writes belongs into the same transaction as the note, so that neither is there alone."""
    data = event["data"]
    print(event["type"], data.get("id", ""), ",".join(data.get("changed", [])), flush=True)


def handle_once(event: dict[str, Any]) -> None:
    """Handles an event, unless it was handled before."""
    with db:
        if db.execute("insert or ignore into handled (id) values (?)", (event["id"],)).rowcount > 0:
            handle(event)


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        if not 0 <= length <= 65_536:  # an event is smaller
            return self.respond(413)
        body = self.rfile.read(length)  # as it was sent, because exactly that is signed
        try:
            handle_once(verify_webhook(body, dict(self.headers), secret))
        except WebhookVerificationError:
            return self.respond(401)
        except Exception as error:
            print(repr(error), file=sys.stderr)
            return self.respond(500)  # the service sends it again
        self.respond(204)

    def respond(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


with HTTPServer(("127.0.0.1", int(sys.argv[2])), Receiver) as server:
    print("port", server.server_port, flush=True)
    server.serve_forever()
