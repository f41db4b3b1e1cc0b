#!/usr/bin/python3
# SPDX-License-Identifier: PostgreSQL
"""A shop outside the database that checks who tells it prices: it keeps the highest token of each duty and refuses lower ones.

    examples/fencing/target.py PORT FILE [--unchecked]

PUT /prices/ITEM with the headers Duty and Fencing-Token: 200, or 409 and the highest token. GET /prices/ITEM shows it.
"""

import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SCHEMA = """
CREATE TABLE IF NOT EXISTS highest (duty TEXT PRIMARY KEY, token INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS price (item TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
RAISE_HIGHEST = """
INSERT INTO highest VALUES (?, ?)
ON CONFLICT (duty) DO UPDATE SET token = excluded.token WHERE excluded.token >= highest.token
"""
SET_PRICE = "INSERT INTO price VALUES (?, ?) ON CONFLICT (item) DO UPDATE SET value = excluded.value"


class Shop(BaseHTTPRequestHandler):
    def do_PUT(self):
        item, value = self.path, self.rfile.read(int(self.headers["Content-Length"])).decode()
        duty, token = self.headers["Duty"], int(self.headers["Fencing-Token"])
        # The check and the effect in one transaction: a check beforehand would leave a moment between the two.
        with sqlite3.connect(self.server.file, isolation_level="IMMEDIATE") as db:
            accepted = db.execute(RAISE_HIGHEST, (duty, token)).rowcount == 1
            if accepted or self.server.unchecked:
                db.execute(SET_PRICE, (item, value))
            highest, = db.execute("SELECT token FROM highest WHERE duty = ?", (duty,)).fetchone()
        self.answer(200 if accepted or self.server.unchecked else 409, str(highest))

    def do_GET(self):
        with sqlite3.connect(self.server.file) as db:
            row = db.execute("SELECT value FROM price WHERE item = ?", (self.path,)).fetchone()
        self.answer(200 if row else 404, row[0] if row else "")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


def main(port, file, mode=None):
    with sqlite3.connect(file) as db:
        db.executescript(SCHEMA)
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Shop)
    server.file, server.unchecked = file, mode == "--unchecked"
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
