"""Types and shapes by rules of our own, for the operators that most models are made of.

onnx's inference knows all operators, but it takes messages and gives messages, and before the first of them
it makes the schemas of all operators: half of what a process takes to open a small model. Here a rule for
each operator says what a node makes of what it reads. Where no rule is sure, :class:`Unsure` is raised, and
onnx's inference decides about the whole graph; what is wrong with a node is for that to say, too.

As there, lists of numbers that shapes are computed with are propagated, with dimensions that only have a
name, and dimensions that nobody knows get a name.
"""

from __future__ import annotations

from ephost.model.type_rules.finder import find_types

__all__ = ["find_types"]
