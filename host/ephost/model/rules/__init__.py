"""Small rewritings of a graph, as onnxruntime does them before it shows the graph to plugins.

Each rule looks at one node and its neighbours and replaces them by fewer that compute the same: a batch
normalisation goes into the weights of the convolution before it, a product and a sum become one ``Gemm``, a
shape that is put together in the run becomes a constant. A module here is a family of rules; in its ``RULES``
they stand by the operator at which each begins. They carry the names of onnxruntime's optimizers, by which
``optimization.disable_specified_optimizers`` turns them off.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ephost.model.graph import Graph, Model, Node
from ephost.model.rules import (
    elementwise,
    equal_nodes,
    normalization,
    padding,
    products,
    quantization,
    shapes,
)
from ephost.model.rules.matching import Rewriting, Rule, is_free

_FAMILIES = (normalization, products, elementwise, quantization, shapes, padding)
_RULES: dict[str, list[Rule]] = {}
for _family in _FAMILIES:
    for _op_type, _rules in _family.RULES.items():
        _RULES.setdefault(_op_type, []).extend(_rules)

RULE_NAMES = frozenset(
    {rule.name for rules in _RULES.values() for rule in rules} | {equal_nodes.NAME, *quantization.PARTS}
)


def rewrite(model: Model, graph: Graph, disabled: Collection[str] = ()) -> tuple[bool, bool]:
    """Apply what rules can be applied to a graph, but not to its subgraphs, and keep its nodes in order.

    Args:
        model: the graph's.
        graph: to change in place.
        disabled: names of rules that are not wanted.

    Returns:
        Whether anything was changed, and whether inference may find more than it knew.
    """
    state = Rewriting(model, graph, disabled)
    changed = False
    while _apply_rules(state):
        changed = True
    while equal_nodes.NAME not in disabled and equal_nodes.merge_equal_nodes(state):
        changed = True  # and readers of what was merged may be equal now
    return changed, state.informs


def _apply_rules(state: Rewriting) -> bool:
    graph = state.graph
    rules = _rules_for({node.op_type for node in graph.nodes}, state.disabled)
    if not rules:
        return False
    changed = False
    for node in graph.nodes:
        while node.op_type in rules and _apply_to(state, node, rules[node.op_type]):
            changed = True  # and the node may be of another kind now
    graph.sweep()
    return changed


def _apply_to(state: Rewriting, node: Node, rules: Sequence[Rule]) -> bool:
    if node.index in state.graph.dropped or node.domain or not is_free(node):
        return False
    for rule in rules:  # noqa: SIM110 - a generator takes longer than most rules
        if rule.apply(state, node):
            return True
    return False


def _rules_for(present: set[str], disabled: Collection[str]) -> dict[str, list[Rule]]:
    """The rules that may find something where these operators are, by the one at which they begin."""
    found = {}
    for op_type in present & _RULES.keys():
        wanted = [
            rule
            for rule in _RULES[op_type]
            if rule.name not in disabled and not present.isdisjoint(rule.needs)
        ]
        if wanted:
            found[op_type] = wanted
    return found
