"""A stand-in for what helm asks of an API server: it keeps objects, and knows nothing else of Kubernetes.

No registry at hand has a kube-apiserver. This is none: nothing is validated, defaulted, scheduled or watched, and a pod
ends as it is told to. It is enough to see what the chart does when helm finds what an earlier install left.
"""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.helm.chart import NEWEST_KUBERNETES, Object

RESOURCES: Mapping[str, tuple[str, ...]] = {
    "v1": ("ConfigMap", "Namespace", "Pod", "Secret", "Service", "ServiceAccount"),
    "apps/v1": ("StatefulSet",),
    "policy/v1": ("PodDisruptionBudget",),
    "networking.k8s.io/v1": ("NetworkPolicy",),
}
"""Kinds by group and version."""
_PROTOBUF_MAGIC = b"k8s\0"


def plural(kind: str) -> str:
    """As paths name it."""
    return f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"


class ObjectStore(ThreadingHTTPServer):
    """Objects by the path that they are read at."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, Object] = {}
        self.pod_phase: Callable[[Object], str] = lambda pod: "Pending"
        """How a pod that is created has ended."""

    def get(self, kind: str, name: str) -> Object | None:
        """The object of that name, in whichever namespace; None if there is none."""
        ending = f"/{plural(kind)}/{name}"
        return next((each for path, each in self.objects.items() if path.endswith(ending)), None)

    def write_kubeconfig(self, path: Path) -> None:
        """The file that leads helm here."""
        server = {"server": f"http://127.0.0.1:{self.server_address[1]}"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "store",
            "clusters": [{"name": "store", "cluster": server}],
            "contexts": [{"name": "store", "context": {"cluster": "store", "user": ""}}],
        }
        path.write_text(yaml.safe_dump(config), encoding="utf-8")


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """One that answers until the block ends."""
    store = ObjectStore()
    thread = threading.Thread(target=store.serve_forever)
    thread.start()
    try:
        yield store
    finally:
        store.shutdown()
        thread.join()
        store.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def objects(self) -> dict[str, Object]:
        return cast(ObjectStore, self.server).objects

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if "watch" in parse_qs(url.query):  # over at once: who watches lists again
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("connection", "close")
            self.end_headers()
            return
        found = discovery(url.path) or self.objects.get(url.path)
        if found is None and (kind := _kind_of_list(url.path)):
            selector = parse_qs(url.query).get("labelSelector", [""])[0]
            found = {"kind": f"{kind[1]}List", "apiVersion": kind[0], "metadata": {}, "items": []}
            for path, each in self.objects.items():
                if path.startswith(f"{url.path}/") and _is_selected(each, selector):
                    found["items"].append(each)
        self._answer(found)

    def do_POST(self) -> None:
        created = self._body()
        path = f"{urlsplit(self.path).path}/{created['metadata']['name']}"
        self._answer(None if path in self.objects else self._store(path, created), missing=409)

    def do_PUT(self) -> None:
        self._answer(self._store(urlsplit(self.path).path, self._body()))

    def do_PATCH(self) -> None:
        path = urlsplit(self.path).path
        applied = "apply" in self.headers["content-type"]
        if path not in self.objects and not applied:
            self._answer(None)
            return
        self._answer(self._store(path, merged(self.objects.get(path, {}), self._body())))

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self._answer(self.objects.pop(urlsplit(self.path).path, None))

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing: helm says itself what it does."""

    def _body(self) -> Object:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if body.startswith(_PROTOBUF_MAGIC):
            return release_secret(body.removeprefix(_PROTOBUF_MAGIC))
        loaded: Object = yaml.load(body, Loader=yaml.CSafeLoader) or {}
        return loaded

    def _store(self, path: str, stored: Object) -> Object:
        plain = stored.pop("stringData", None) or {}
        if plain:
            encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
            stored["data"] = stored.get("data", {}) | encoded
        stored["metadata"]["namespace"] = path.split("/namespaces/")[-1].partition("/")[0]
        if stored["kind"] == "Pod" and path not in self.objects:
            stored["status"] = {"phase": cast(ObjectStore, self.server).pod_phase(stored)}
        self.objects[path] = stored
        return stored

    def _answer(self, found: Object | None, *, missing: int = 404) -> None:
        reason = {404: "NotFound", 409: "AlreadyExists"}[missing]
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "code": missing,
        }
        body = json.dumps(status if found is None else found).encode()
        self.send_response(missing if found is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def discovery(path: str) -> Object | None:
    """What there is, in the older form that needs no negotiation."""
    if path == "/version":
        major, minor = NEWEST_KUBERNETES.split(".")
        return {"major": major, "minor": minor, "gitVersion": f"v{NEWEST_KUBERNETES}.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = [each.partition("/")[0] for each in RESOURCES if "/" in each]
        versions = [{"groupVersion": f"{group}/v1", "version": "v1"} for group in groups]
        return {
            "kind": "APIGroupList",
            "groups": [
                {"name": group, "versions": [version], "preferredVersion": version}
                for group, version in zip(groups, versions, strict=True)
            ],
        }
    if path.startswith("/openapi/v3"):
        return open_api(path.removeprefix("/openapi/v3").strip("/"))
    version = path.removeprefix("/apis/").removeprefix("/api/")
    if version not in RESOURCES:
        return None
    verbs = ["create", "delete", "get", "list", "patch", "update"]
    return {
        "kind": "APIResourceList",
        "groupVersion": version,
        "resources": [
            {
                "name": plural(kind),
                "singularName": kind.lower(),
                "kind": kind,
                "namespaced": kind != "Namespace",
                "verbs": verbs,
            }
            for kind in RESOURCES[version]
        ],
    }


def open_api(path: str) -> Object:
    """As of a server that validates by itself, so that helm leaves it to it: without a path what there is."""
    paths = {"api/v1" if version == "v1" else f"apis/{version}": version for version in RESOURCES}
    if not path:
        return {"paths": {each: {"serverRelativeURL": f"/openapi/v3/{each}"} for each in paths}}
    group, _, version = paths[path].rpartition("/")
    operations = {
        f"/{plural(kind)}": {
            "patch": {
                "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
                "parameters": [{"name": "fieldValidation", "in": "query"}],
            }
        }
        for kind in RESOURCES[paths[path]]
    }
    return {"openapi": "3.0.0", "info": {"title": "objects", "version": version}, "paths": operations}


def release_secret(body: bytes) -> Object:
    """The Secret in which helm keeps a release, which it sends as protobuf: the fields of Secret and ObjectMeta."""
    raw = dict(_fields(body))[2]
    secret = dict(_fields(raw))
    metadata = dict(_fields(secret[1]))
    labels = [dict(_fields(value)) for number, value in _fields(secret[1]) if number == 11]
    data = [dict(_fields(value)) for number, value in _fields(raw) if number == 2]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": secret[3].decode(),
        "metadata": {
            "name": metadata[1].decode(),
            "labels": {entry[1].decode(): entry[2].decode() for entry in labels},
        },
        "data": {entry[1].decode(): base64.b64encode(entry[2]).decode() for entry in data},
    }


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a protobuf message, by number."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        size, at = _varint(message, at)
        if tag & 7 == 2:
            yield tag >> 3, message[at : at + size]
            at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return value, at


def _kind_of_list(path: str) -> tuple[str, str] | None:
    for version, kinds in RESOURCES.items():
        for kind in kinds:
            if path.endswith(f"/{plural(kind)}"):
                return version, kind
    return None


def _is_selected(stored: Object, selector: str) -> bool:
    wanted = dict(each.split("=", 1) for each in selector.split(",") if each)
    return wanted.items() <= (stored["metadata"].get("labels") or {}).items()


def merged(old: Any, patch: Any) -> Any:
    """A merge patch (RFC 7386); of the strategic kind only that entries of a list are told apart by their names."""
    if isinstance(patch, dict):
        result = dict(old) if isinstance(old, dict) else {}
        for name, value in patch.items():
            if value is None:
                result.pop(name, None)
            elif not name.startswith("$"):
                result[name] = merged(result.get(name), value)
        return result
    if isinstance(patch, list) and isinstance(old, list) and _named(patch) and _named(old):
        by_name = {each["name"]: each for each in old}
        return list(
            (by_name | {each["name"]: merged(by_name.get(each["name"]), each) for each in patch}).values()
        )
    return patch


def _named(entries: list[Any]) -> bool:
    return all(isinstance(each, dict) and "name" in each for each in entries)
