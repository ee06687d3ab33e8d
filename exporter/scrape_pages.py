"""The scrape listener: GET /metrics, the probes, the links and the history."""

import sqlite3
import time
from collections.abc import Callable, Mapping

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from exporter.config import ExporterConfig
from exporter.errors import JournalUnavailable, MalformedRequest, RequestError, UnknownRun
from exporter.exposition import Exposition
from exporter.ingest import Ingest
from exporter.negotiation import OPENMETRICS, accepts_gzip, choose_format
from exporter.page_response import PageResponse
from exporter.publish import backfill, history, page
from exporter.scrape_log import ScrapeLog
from exporter.self_metrics import SelfMetrics

_LINKS = """<!doctype html><title>asyncrl exporter</title><h1>asyncrl exporter</h1><ul>
<li><a href="/metrics">metrics</a></li>
<li><a href="/api/v1/runs">runs</a>, and of each <code>/api/v1/runs/{run}/versions</code></li>
<li><a href="/healthz">healthz</a></li>
<li><a href="/readyz">readyz</a></li>
</ul>
"""
_JSON = "application/json"
_VERSION_FORMS: Mapping[str, tuple[str, Callable[[history.Page], bytes]]] = {
    "json": (_JSON, history.versions_json),
    "csv": ("text/csv", history.versions_csv),
    "openmetrics": (OPENMETRICS.content_type, backfill.versions_openmetrics),
}
_USUAL_LIMIT = 1000
_LARGEST_LIMIT = 100_000


class _RunName(Convertor[str]):
    """Any name: Starlette's `path` takes none with a line feed in it."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class ScrapePages:
    """What Prometheus, probes and people read. Records each page served in `scrapes`."""

    def __init__(
        self, config: ExporterConfig, ingest: Ingest, scrapes: ScrapeLog, self_metrics: SelfMetrics
    ) -> None:
        self._grace_seconds = config.grace_seconds
        self._ingest = ingest
        self._scrapes = scrapes
        self._self_metrics = self_metrics
        self._exposition = Exposition(page.families, self_metrics, page.versions)

    def app(self) -> Starlette:
        """The ASGI application."""
        register_url_convertor("run", _RunName())
        return Starlette(
            routes=[
                Route("/", self._links),
                Route("/metrics", self._metrics),
                Route("/healthz", self._healthz),
                Route("/readyz", self._readyz),
                Route("/api/v1/runs", self._runs),
                Route("/api/v1/runs/{run:run}/versions", self._versions),
            ],
            exception_handlers={RequestError: _refusal, sqlite3.Error: _refusal},
        )

    def close(self) -> None:
        """Ends the writing thread once it is idle."""
        self._exposition.close()

    async def _links(self, request: Request) -> Response:
        return HTMLResponse(_LINKS)

    async def _healthz(self, request: Request) -> Response:
        return Response()

    async def _readyz(self, request: Request) -> Response:
        return Response(status_code=200 if self._ingest.ready else 503)

    async def _metrics(self, request: Request) -> Response:
        started = time.perf_counter()
        form = choose_format(request.headers.get("accept", ""))
        compressed = accepts_gzip(request.headers.get("accept-encoding", ""))
        written = await self._exposition.page(self._ingest.snapshot, form, compressed=compressed)
        if request.method == "GET":
            self._scrapes.record(written.timestamp)
            self._self_metrics.scrape_seconds = time.perf_counter() - started
        headers = {"content-type": form.content_type, "vary": "Accept, Accept-Encoding"}
        if compressed:
            headers["content-encoding"] = "gzip"
        return PageResponse(written.texts, headers=headers)

    async def _runs(self, request: Request) -> Response:
        snapshot = self._ingest.snapshot
        runs = await run_in_threadpool(history.list_runs, self._ingest.archive, snapshot.runs.values())
        scrapes = {
            "count": self._scrapes.count,
            "interval_seconds": self._scrapes.interval_seconds,
            "last_timestamp": self._scrapes.last_timestamp,
        }
        answer = {
            "runs": runs,
            "scrapes": scrapes,
            "grace_seconds": self._grace_seconds,
            "last_probes": snapshot.probes,
        }
        return Response(msgspec.json.encode(answer), media_type=_JSON)

    async def _versions(self, request: Request) -> Response:
        query = request.query_params
        form = query.get("format", "json")
        if form not in _VERSION_FORMS:
            raise MalformedRequest(f"format must be json, csv or openmetrics, got {form!r}")
        run = request.path_params["run"]
        known = await run_in_threadpool(self._is_known, run)
        if not known:
            raise UnknownRun(f"no run {run!r}; /api/v1/runs lists those that are known")
        page = await run_in_threadpool(
            history.read_page,
            self._ingest.archive,
            run,
            first=_integer(query, "from", least=0),
            last=_integer(query, "to", least=0),
            limit=_integer(query, "limit", least=1, most=_LARGEST_LIMIT) or _USUAL_LIMIT,
            cursor=query.get("cursor", ""),
        )
        media_type, write = _VERSION_FORMS[form]
        following = {"x-next-cursor": page.following} if page.following else {}
        return Response(await run_in_threadpool(write, page), media_type=media_type, headers=following)

    def _is_known(self, run: str) -> bool:
        archived = (summary.run for summary in self._ingest.archive.runs())
        return run in self._ingest.snapshot.runs or run in archived


def error_response(error: RequestError, content_type: str) -> Response:
    """An answer other than 200: plain text, whatever the request was."""
    headers = {} if error.retry_after_seconds is None else {"retry-after": str(error.retry_after_seconds)}
    return PlainTextResponse(f"{error}\n", status_code=error.status, headers=headers)


async def _refusal(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestError):
        error = JournalUnavailable(f"the journal cannot be read: {error}")
    return error_response(error, "")


def _integer(query: Mapping[str, str], name: str, *, least: int, most: int = 2**62) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise MalformedRequest(f"{name} must be an integer in {least}..{most}, got {text!r}")
    return int(text)
