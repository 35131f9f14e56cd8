"""Names of execution providers that the host itself knows."""

DEFAULT_PROVIDER = "CPUExecutionProvider"
