"""The scrape listener: GET /metrics, the probes, the links and the history."""

import asyncio
from collections.abc import Mapping

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from exporter.config import ExporterConfig
from exporter.exposition import Exposition, PageUnavailable
from exporter.ingest import Ingest
from exporter.negotiation import accepts_gzip, choose_format
from exporter.publish import history, page
from exporter.scrape_log import ScrapeLog
from exporter.self_metrics import SelfMetrics

_LINKS = """<!doctype html><title>asyncrl exporter</title><h1>asyncrl exporter</h1><ul>
<li><a href="/metrics">metrics</a></li>
<li><a href="/api/v1/runs">runs</a></li>
<li><a href="/healthz">healthz</a></li>
<li><a href="/readyz">readyz</a></li>
</ul>
"""
_JSON = "application/json"
