"""The host's own messages, without the time that importing ``logging`` takes until there is one to show."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging

# The levels of logging.
DEBUG, INFO, WARNING, ERROR, CRITICAL = 10, 20, 30, 40, 50


class HostLog:
    """The logger of a name, looked up when there is a message.

    Before anybody has imported ``logging``, nobody can have asked for what is below a warning, and it goes
    nowhere.
    """

    __slots__ = ("_logger", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._logger: logging.Logger | None = None

    def is_enabled_for(self, level: int) -> bool:
        """Whether a message of this level may go anywhere."""
        if self._logger is None:
            if level < WARNING and "logging" not in sys.modules:
                return False
            import logging

            self._logger = logging.getLogger(self.name)
        return self._logger.isEnabledFor(level)

    def _log(self, level: int, message: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self.is_enabled_for(level):
            assert self._logger is not None
            # The record names the line that called one of the functions below.
            self._logger.log(level, message, *arguments, stacklevel=3, **named)

    def debug(self, message: str, *arguments: Any, **named: Any) -> None:
        """As :meth:`logging.Logger.debug`."""
        self._log(DEBUG, message, arguments, named)

    def info(self, message: str, *arguments: Any, **named: Any) -> None:
        """As :meth:`logging.Logger.info`."""
        self._log(INFO, message, arguments, named)

    def warning(self, message: str, *arguments: Any, **named: Any) -> None:
        """As :meth:`logging.Logger.warning`."""
        self._log(WARNING, message, arguments, named)

    def error(self, message: str, *arguments: Any, **named: Any) -> None:
        """As :meth:`logging.Logger.error`."""
        self._log(ERROR, message, arguments, named)

    def exception(self, message: str, *arguments: Any, **named: Any) -> None:
        """As :meth:`logging.Logger.exception`: with the exception that is being handled."""
        self._log(ERROR, message, arguments, {"exc_info": True, **named})

    def log(self, level: int, message: str, *arguments: Any, **named: Any) -> None:
        """As :meth:`logging.Logger.log`."""
        self._log(level, message, arguments, named)
