"""``ephost serve``: a model server for a folder of models."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import click

from ephost.cli.model import Seconds
from ephost.cli.output import reports_failures
from ephost.cli.plugins import Plugin, add_registered, plugin_option
from ephost.reading import refuse_special


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--http-port",
    type=click.IntRange(-1, 65535),
    default=8000,
    show_default=True,
    help="For REST and metrics; 0 is any that is free, -1 none.",
)
@click.option(
    "--grpc-port",
    type=click.IntRange(-1, 65535),
    default=8001,
    show_default=True,
    help="For gRPC; 0 is any that is free, -1 none.",
)
@plugin_option
@click.option(
    "--max-request-bytes",
    type=click.IntRange(min=1),
    default=64 << 20,
    show_default=True,
    help="The largest request that is taken.",
)
@click.option(
    "--drain-seconds",
    type=Seconds(min=0),
    default=30.0,
    show_default=True,
    help="Time for requests that were accepted when the server is told to end.",
)
@click.option(
    "--repository-control/--no-repository-control",
    default=True,
    show_default=True,
    help="Whether clients may load and unload models.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the token that requests must bring as Authorization: Bearer.",
)
@click.option(
    "--tls-certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A PEM file with the server's certificate and its chain.",
)
@click.option(
    "--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its private key."
)
@click.option(
    "--log-format",
    type=click.Choice(("json", "text")),
    default="json",
    show_default=True,
    help="How messages on stderr are written.",
)
@reports_failures
def serve(
    folder: Path,
    host: str,
    http_port: int,
    grpc_port: int,
    plugins: Sequence[Plugin],
    max_request_bytes: int,
    drain_seconds: float,
    repository_control: bool,
    token_file: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    log_format: str,
) -> None:
    """Serve the models in FOLDER by the Open Inference Protocol.

    FOLDER has NAME/VERSION/model.onnx for each model, and NAME/config.toml where its defaults do not do.
    Models whose configuration names no execution provider run on those of --ep, in the order given. Ends on
    SIGTERM or SIGINT, when all requests that it has accepted are answered.
    """
    try:
        from ephost.serving.server import Server, Settings
    except ModuleNotFoundError as error:
        missing = (error.name or str(error)).partition(".")[0]
        raise click.ClickException(f"{missing} is not installed: pip install 'ephost[serve]'") from None
    # What the server does is said without --log info, which is about plugins and sessions.
    logging.getLogger("ephost.serving").setLevel(logging.INFO)
    if log_format == "json":
        from ephost.serving.logs import JsonFormatter

        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonFormatter())
    settings = Settings(
        host=host,
        http_port=None if http_port < 0 else http_port,
        grpc_port=None if grpc_port < 0 else grpc_port,
        max_request_bytes=max_request_bytes,
        drain_seconds=drain_seconds,
        repository_control=repository_control,
        token=_token(token_file),
        certificate=tls_certificate,
        key=tls_key,
    )
    for plugin in plugins:
        plugin.register()
    Server(folder, settings, lambda options: add_registered(options, plugins)).run()


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    refuse_special(path, "the token's file")
    token = path.read_bytes().strip().decode("ascii", "replace")
    if not token or not token.isascii():
        raise click.BadParameter(f"{path} has no token of ASCII characters", param_hint="--token-file")
    return token
