"""The checks, a module for each group or a few that belong together."""
