# SPDX-License-Identifier: Apache-2.0
"""A server that is slow once, and a dump of its flight recorder that says why.

    python examples/always_on_server.py            # prints the path of the dump
    fastprof explain PATH

Its clients run in the same program, so that the example ends.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

from fastprof import flight_recorder, record_function

REQUESTS, SLOW = 60, 40
prices = {f"article {number}": number for number in range(2000)}


def price(article: str, *, stale: bool) -> int:
    """Look a price up; when the cache is stale, read it again first."""
    with record_function("price"):
        if stale:
            with record_function("reload prices"):
                time.sleep(0.4)  # a slow database
        return prices[article]


class Shop(BaseHTTPRequestHandler):
    """Answers /NUMBER with the price of an article."""

    def do_GET(self) -> None:
        """Answer one request: a step of the recorder."""
        number = int(self.path[1:])
        with record_function("request"):
            text = str(price(f"article {number}", stale=number == SLOW)).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text)
        flight_recorder.step()

    def log_message(self, *args: object) -> None:
        """Print nothing."""


def main() -> None:
    """Serve REQUESTS requests under a flight recorder."""
    flight_recorder.start(slow_step=5, min_dump_interval_s=0)
    server = HTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for number in range(REQUESTS):
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{number}").read()
    server.shutdown()
    flight_recorder.stop()


if __name__ == "__main__":
    main()
