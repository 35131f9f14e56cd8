"""Structured logs: one JSON object for each message."""

from __future__ import annotations

import json
import logging
import time

_LOG = logging.getLogger("ephost.serving")
_FIELDS = ("model", "version", "event", "http_port", "grpc_port")


class Sparing:
    """A warning that is given once a minute at most, however often there is cause."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = 0.0

    def __call__(self, *arguments: object) -> None:
        """There is cause."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 60.0
            _LOG.warning(self._text, *arguments)


class JsonFormatter(logging.Formatter):
    """Messages as JSON: time (UTC), level, logger, message, and what else a record says of the server."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        data = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        data |= {key: getattr(record, key) for key in _FIELDS if hasattr(record, key)}
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        return json.dumps(data, ensure_ascii=True)
