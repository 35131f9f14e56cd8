"""What a request can be told is wrong: one class for each answer that both protocols have a code for."""

from __future__ import annotations


class ServingError(Exception):
    """Base of the errors that a request is answered with. Its text goes to the client."""

    http_status = 500
    grpc_code = "INTERNAL"


class BadRequest(ServingError):
    """The request is not what the protocol or the model takes."""

    http_status = 400
    grpc_code = "INVALID_ARGUMENT"


class Unauthorized(ServingError):
    """The request brings no token, or another than the server's."""

    http_status = 401
    grpc_code = "UNAUTHENTICATED"


class Forbidden(ServingError):
    """The server was started without what the request asks for."""

    http_status = 403
    grpc_code = "PERMISSION_DENIED"


class UnknownModel(ServingError):
    """There is no such model, or no such version of it."""

    http_status = 404
    grpc_code = "NOT_FOUND"


class TooLarge(ServingError):
    """The request has more bytes than the server takes."""

    http_status = 413
    grpc_code = "RESOURCE_EXHAUSTED"


class QueueFull(ServingError):
    """The model's queue is full: try again later."""

    http_status = 429
    grpc_code = "RESOURCE_EXHAUSTED"


class RunFailed(ServingError):
    """The model was run on the request, and failed."""


class Unavailable(ServingError):
    """The model is known, but not ready, or the server is about to end."""

    http_status = 503
    grpc_code = "UNAVAILABLE"


class DeadlineExceeded(ServingError):
    """The request's time was over before it was run."""

    http_status = 504
    grpc_code = "DEADLINE_EXCEEDED"


class Closed(Exception):
    """A scheduler takes no more requests: its model was replaced or unloaded. Never a client's to see."""
