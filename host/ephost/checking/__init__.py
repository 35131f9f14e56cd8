"""A conformance suite for plugin execution providers: ``ephost check``."""
