"""From a model that goes wrong on an execution provider to the smallest thing that still does."""
