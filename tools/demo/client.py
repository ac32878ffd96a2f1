"""Asking a running server, with nothing but Python's own library."""

import http.client
import json
import time
import urllib.parse


class Failure(Exception):
    """The server answered with an error, or not at all."""


class Connection:
    """One kept connection, closed by `close` or at the end of a `with` statement. Not for several
    threads at once."""

    def __init__(self, url: str, timeout: float = 60, key: str | None = None):
        parts = urllib.parse.urlsplit(url)
        self._http = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"

    def close(self) -> None:
        self._http.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def connect(self) -> None:
        try:
            self._http.connect()
        except OSError as error:
            raise Failure(f"{self._http.host}:{self._http.port}: {error}") from error

    def _response(self, method: str, path: str, body=None) -> http.client.HTTPResponse:
        try:
            self._http.request(method, path, json.dumps(body) if body is not None else None,
                               self._headers)
            response = self._http.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise Failure(f"{self._http.host}:{self._http.port}: {error!r}") from error
        if response.status != 200:
            raise Failure(f"{path}: status {response.status}: {response.read().decode()}")
        return response

    def get(self, path: str) -> str:
        return self._response("GET", path).read().decode()

    def post(self, path: str, body: dict) -> dict:
        return json.loads(self.post_for_text(path, body))

    def post_for_text(self, path: str, body: dict) -> str:
        return self._response("POST", path, body).read().decode()

    def stream(self, path: str, body: dict):
        """The events of a stream, as (seconds since the request was sent, event)."""
        began = time.perf_counter()
        response = self._response("POST", path, {**body, "stream": True})
        for line in response:
            if not line.startswith(b"data: "):
                continue
            data = line[len(b"data: "):].strip()
            if data == b"[DONE]":
                response.read()
                return
            event = json.loads(data)
            if "error" in event:
                raise Failure(f"{path}: {event['error']['message']}")
            yield time.perf_counter() - began, event
        raise Failure(f"{path}: the stream broke off")


def chat(model: str, question: str, max_tokens: int) -> dict:
    """The body of a chat completion with the likeliest answer."""
    return {"model": model, "messages": [{"role": "user", "content": question}],
            "max_tokens": max_tokens, "temperature": 0}
