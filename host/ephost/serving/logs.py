"""Structured logs: one JSON object for each message."""

from __future__ import annotations

import json
import logging
import time

_FIELDS = ("model", "version", "event", "http_port", "grpc_port")


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
