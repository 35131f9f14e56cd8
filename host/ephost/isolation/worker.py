"""What a worker process does once :mod:`ephost.isolation.sandbox` holds it to what it needs."""

from __future__ import annotations

import gc
import json
import logging
import os
import pickle
import signal
import socket
import threading
from typing import Any, NoReturn

from ephost._bindings import ffi, lib
from ephost.errors import OnnxRuntimeException
from ephost.isolation import channel
from ephost.isolation.serving import Serving
from ephost.logs import PLUGIN_PREFIX

_LEVELS = {logging.DEBUG: 0, logging.INFO: 1, logging.WARNING: 2, logging.ERROR: 3, logging.CRITICAL: 4}


class _Forwarder(logging.Handler):
    """Sends what is logged here to the host."""

    def __init__(self, send: Any) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        name = record.name.removeprefix(PLUGIN_PREFIX) if record.name.startswith(PLUGIN_PREFIX) else "ephost"
        row = (
            name,
            _LEVELS.get(record.levelno, 1),
            record.getMessage(),
            getattr(record, "plugin_file", ""),
            getattr(record, "plugin_line", 0),
            getattr(record, "plugin_function", ""),
        )
        self._send({"log": row})


def serve(start: dict[str, Any], problem: str) -> None:
    """Do what the host asks until it has gone.

    Args:
        start: what the host told this process.
        problem: why it is not held to what it should be; "" when it is. The host then ends it.
    """
    connection = socket.socket(fileno=start["control"])
    if not lib.ephost_worker_watch(start["life"]):
        os._exit(70)
    pool = lib.ephost_pool_open(start["pool"], start["pool_bytes"])
    status = lib.ephost_status_map(start["status"])
    if not status:
        os._exit(71)
    if not pool:
        problem = (
            problem or f"{start['pool_bytes']} bytes of addresses (the setting shared_bytes) are too many"
        )
    lib.ephost_worker_report(start["report"], status)
    lib.ephost_worker_begin(connection.fileno(), status)
    os.close(start["status"])
    lock = threading.Lock()

    def send(answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        lib.ephost_worker_check()
        try:
            with lock:
                channel.send(connection, data)
        except (BrokenPipeError, ConnectionResetError):
            _leave()

    logger = logging.getLogger("ephost")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(_Forwarder(send))
    gc.freeze()
    serving = Serving(pool)
    send({"problem": problem})
    while (message := _receive(connection)) is not None:
        number, operation, request, data = pickle.loads(message[0])
        try:
            answer = serving.operations[operation](request, data, message[1]) or {}
        except OnnxRuntimeException as error:
            answer = {"error": {"code": error.code, "text": str(error)}}
        except Exception as error:
            answer = {"error": {"kind": type(error).__name__, "text": str(error)}}
        send({**answer, "to": number})
        if operation == "close":
            # Nothing that Python's own end would still call can be anybody's fault but the host's.
            lib.ephost_worker_report(-1, ffi.NULL)
            os._exit(0)
    _leave()


def _receive(connection: socket.socket) -> tuple[bytearray, list[int]] | None:
    try:
        return channel.receive(connection)
    except OSError:
        lib.ephost_worker_check()  # a thread of the plugin's may have closed it
        raise


def _leave() -> NoReturn:
    """The host has gone. As the thread that watches for it: with what the plugin has started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
