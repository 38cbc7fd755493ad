"""The web server of the dashboard: checks every request, answers with a page, JSON, or a file.

Only GET and HEAD exist. Names in a request are looked up in the library; nothing of a request becomes a path.
A page of another site cannot reach it under a name of its own (DNS rebinding): the Host header must be a
number, localhost, or a name this server was told.

Invariant: a request reads, and whatever it asks for, nothing outside the train_dir is answered with.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import mimetypes
import re
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from sample_factory.benchmark.run_record import strict_json
from sample_factory.experiments.dashboard.experiment_page import compare_page, experiment_page
from sample_factory.experiments.dashboard.index_page import index_page
from sample_factory.experiments.dashboard.layout import message_page
from sample_factory.experiments.dashboard.library import MOST_POINTS, Library
from sample_factory.experiments.errors import ExperimentsError
from sample_factory.experiments.reading import Experiment

log = logging.getLogger("sample_factory")

STATIC = {
    "dashboard.css": "text/css; charset=utf-8",
    "chart.js": "text/javascript; charset=utf-8",
    "lineage.js": "text/javascript; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
IDLE_SEC = 30.0
MOST_COMPARED = 12
_PIECE_BYTES = 256 * 1024
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class DashboardServer(ThreadingHTTPServer):
    """Answers every request in a thread of its own."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], library: Library, names: Sequence[str] = ()) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.library = library
        self.names = frozenset(name.lower() for name in ("localhost", *names))
        super().__init__(address, Handler)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])


class Refusal(Exception):  # noqa: N818  an answer, not an error of ours
    """A request that is answered with a sentence."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Span(NamedTuple):
    """The bytes of a file that were asked for, the last one included."""

    first: int
    last: int

    @property
    def length(self) -> int:
        """How many bytes."""
        return self.last - self.first + 1


def is_own_host(header: str | None, names: frozenset[str]) -> bool:
    """Whether a Host header is an address, or a name of this server and not one made to lead here."""
    try:
        host = urlsplit(f"//{header or ''}").hostname or ""
    except ValueError:
        return False
    if host in names:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def requested_span(header: str | None, size: int) -> Span | None:
    """What a Range header asks for; None for the whole file.

    Raises:
        Refusal: no byte of the range exists.
    """
    match = _RANGE.fullmatch((header or "").strip())
    if match is None or match[0] == "bytes=-":
        return None  # several ranges, or another unit: the whole file is a right answer too
    first, last = match[1], match[2]
    if not first:
        span = Span(max(0, size - int(last)), size - 1)
    else:
        span = Span(int(first), min(int(last), size - 1) if last else size - 1)
    if span.length <= 0 or span.first >= size:
        raise Refusal(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "There are no such bytes.")
    return span


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: DashboardServer
    protocol_version = "HTTP/1.1"
    server_version = "sample_factory"
    sys_version = ""
    timeout = IDLE_SEC

    def do_GET(self) -> None:
        """Answers a request."""
        try:
            self._check_host()
            self._route()
        except Refusal as refusal:
            self._refuse(refusal)
        except ExperimentsError as error:
            self._refuse(Refusal(HTTPStatus.NOT_FOUND, str(error)))
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True  # the browser has left
        except Exception:  # a page that fails must not take the server with it
            log.exception("The dashboard could not answer %s.", self.path)
            self._refuse(Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "This page failed; the log says why."))

    do_HEAD = do_GET  # noqa: N815

    def _refuse_method(self) -> None:
        self.close_connection = True  # a body may follow, and nobody reads it
        self._refuse(Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "The dashboard only shows: use GET."))

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse_method  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are no news."""

    def _check_host(self) -> None:
        if not is_own_host(self.headers.get("Host"), self.server.names):
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                "Unknown host name; start with --allow_host=NAME to be reached under it.",
            )

    def _route(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        library = self.server.library
        if url.path == "/":
            self._send_page(index_page(library))
        elif url.path == "/compare":
            found = [library.experiment(name) for name in query.get("e", [])[:MOST_COMPARED]]
            self._send_page(compare_page(library, [e for e in found if e is not None]))
        elif url.path.startswith("/experiment/"):
            name = unquote(url.path.removeprefix("/experiment/"))
            self._send_page(experiment_page(library, self._experiment(name)))
        elif url.path.startswith("/static/"):
            self._send_static(url.path.removeprefix("/static/"))
        elif url.path == "/media":
            self._send_media(query)
        elif url.path in _API:
            self._send_json(_API[url.path](self, query))
        else:
            raise Refusal(HTTPStatus.NOT_FOUND, "There is no such page.")

    def _experiment(self, name: str) -> Experiment:
        experiment = self.server.library.experiment(name)
        if experiment is None:
            raise Refusal(HTTPStatus.NOT_FOUND, f"There is no experiment {name} here.")
        return experiment

    def _named(self, query: dict[str, list[str]]) -> Experiment:
        return self._experiment(_one(query, "e"))

    def _api_experiments(self, query: dict[str, list[str]]) -> Any:
        return self.server.library.rows()

    def _api_facts(self, query: dict[str, list[str]]) -> Any:
        return self.server.library.facts(self._named(query))

    def _api_curve(self, query: dict[str, list[str]]) -> Any:
        wanted = query.get("points", [""])[0]
        points = (
            min(MOST_POINTS, max(2, int(wanted))) if wanted.isascii() and wanted.isdigit() else MOST_POINTS
        )
        return self.server.library.curves(self._named(query), _one(query, "tag"), points)

    def _api_lineage(self, query: dict[str, list[str]]) -> Any:
        return self.server.library.lineage(self._named(query))

    def _api_log(self, query: dict[str, list[str]]) -> Any:
        return {"text": self.server.library.log(self._named(query))}

    def _send_page(self, content: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(content.encode(), "text/html; charset=utf-8", status)

    def _send_json(self, content: Any) -> None:
        self._send(json.dumps(strict_json(content)).encode(), "application/json")

    def _send_static(self, name: str) -> None:
        if name not in STATIC:
            raise Refusal(HTTPStatus.NOT_FOUND, "There is no such file.")
        content = resources.files(__package__).joinpath("static", name).read_bytes()
        self._send(content, STATIC[name])

    def _send_media(self, query: dict[str, list[str]]) -> None:
        path = self.server.library.media_file(self._named(query), _one(query, "f"))
        if path is None:
            raise Refusal(HTTPStatus.NOT_FOUND, "There is no such video or picture.")
        with path.open("rb") as file:
            self._send_file(file, path, file.seek(0, 2))

    def _send_file(self, file: BinaryIO, path: Path, size: int) -> None:
        span = requested_span(self.headers.get("Range"), size)
        whole = span or Span(0, size - 1)
        self.send_response(HTTPStatus.PARTIAL_CONTENT if span else HTTPStatus.OK)
        self.send_header("Content-Type", mimetypes.guess_type(path.name)[0] or "application/octet-stream")
        self.send_header("Content-Length", str(whole.length))
        self.send_header("Accept-Ranges", "bytes")
        if span:
            self.send_header("Content-Range", f"bytes {span.first}-{span.last}/{size}")
        self._end_headers()
        if self.command == "HEAD":
            return
        file.seek(whole.first)
        _copy(file, self.wfile, whole.length)

    def _refuse(self, refusal: Refusal) -> None:
        status, sentence = refusal.status, str(refusal)
        if self.path.startswith("/api/"):
            self._send(json.dumps({"error": sentence}).encode(), "application/json", status)
        elif status in (HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED):
            self._send(f"{sentence}\n".encode(), "text/plain; charset=utf-8", status)
        else:
            train_dir = str(self.server.library.train_dir)
            self._send_page(message_page(train_dir, status.phrase, sentence), status)

    def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self._end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()


_API: dict[str, Callable[[Handler, dict[str, list[str]]], Any]] = {
    "/api/experiments": Handler._api_experiments,
    "/api/facts": Handler._api_facts,
    "/api/curve": Handler._api_curve,
    "/api/lineage": Handler._api_lineage,
    "/api/log": Handler._api_log,
}


def _one(query: dict[str, list[str]], name: str) -> str:
    if name not in query:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"The request lacks {name}.")
    return query[name][0]


def _copy(source: BinaryIO, target: Any, length: int) -> None:
    """Copies some bytes in pieces; a file that has become shorter ends the answer early."""
    while length > 0:
        piece = source.read(min(length, _PIECE_BYTES))
        if not piece:
            return
        target.write(piece)
        length -= len(piece)
