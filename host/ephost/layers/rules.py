"""The rules of the layer ``validate``: the one place where they are named.

``tools/generate_layer.py`` makes the layer's half of this table, ``tools/rules.py`` the one of docs/rules.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Rule:
    """What a plugin has to keep to.

    Attributes:
        name: stays the same in all versions; a name is never used again for another rule.
        severity: "error" where the ABI is broken; "warning" where a plugin works by luck, or leaves things
            behind; "info" where it may have a reason.
        text: what the plugin did.
    """

    name: str
    severity: str
    text: str


_OF_ALL = (
    Rule("EPV-OWN-001", "error", "releases a handle twice"),
    Rule("EPV-OWN-002", "error", "uses a handle after its release"),
    Rule("EPV-OWN-003", "error", "releases a handle that it was only lent"),
    Rule("EPV-OWN-004", "error", "releases a handle that it had handed over"),
    Rule("EPV-OWN-005", "warning", "leaves a handle that it made when it is unregistered"),
    Rule("EPV-OWN-006", "warning", "leaves a status of the host when it is unregistered"),
    Rule("EPV-OWN-007", "error", "has a struct of its called after the struct's release"),
    Rule("EPV-OWN-008", "info", "keeps a handle when it is unregistered, and stays in the process"),
    Rule("EPV-PHASE-001", "error", "uses a kernel's context after the Compute that it was for"),
    Rule("EPV-PHASE-002", "error", "uses an input or output of Compute after the Compute that it was for"),
    Rule("EPV-PHASE-003", "error", "uses a handle after the call that it was lent for"),
    Rule("EPV-PHASE-004", "error", "lets a C++ exception leave a function of the ABI"),
    Rule("EPV-BOUND-001", "error", "writes behind the end of an output"),
    Rule("EPV-BOUND-002", "error", "writes before the start of an output"),
    Rule("EPV-BOUND-003", "error", "writes to an input"),
    Rule("EPV-BOUND-004", "error", "leaves an output, or a part of it, unwritten"),
    Rule("EPV-BOUND-005", "error", "reads or writes behind the end of an input"),
    Rule("EPV-OUT-001", "error", "computes a fused node without asking for each of its outputs"),
    Rule("EPV-OUT-002", "warning", "gives an output another shape than the graph says"),
    Rule("EPV-VER-001", "error", "calls a function that is newer than the API version it asked for"),
    Rule("EPV-VER-002", "error", "hands over a struct without a member that is required"),
    Rule("EPV-VER-003", "error", "hands over a struct whose version is older than such structs are"),
    Rule("EPV-ARG-001", "error", "calls a function on NULL"),
    Rule("EPV-ARG-002", "warning", "gives NULL where the host refuses it"),
    Rule("EPV-ARG-003", "error", "gives a value that is none of the enumeration"),
    Rule("EPV-ARG-004", "error", "makes a status that says ORT_OK, which is no error"),
    Rule("EPV-ANS-001", "error", "answers with no text, or an empty one, where there has to be one"),
    Rule("EPV-ANS-002", "error", "succeeds without giving what it was asked for"),
    Rule("EPV-ANS-003", "error", "says that it wrote more than there was room for"),
    Rule("EPV-ANS-004", "error", "has an EP whose name is not its factory's"),
    Rule("EPV-ANS-005", "error", "answers with a value that is none of the enumeration"),
    Rule("EPV-ANS-006", "error", "gives one object twice"),
    Rule("EPV-CLAIM-001", "error", "claims a node that is not in the graph it was asked about"),
    Rule("EPV-CLAIM-002", "error", "claims a node twice"),
    Rule("EPV-CLAIM-003", "error", "claims a group of no nodes"),
    Rule("EPV-CLAIM-004", "error", "claims a group that a path leaves and returns to"),
    Rule("EPV-CLAIM-005", "error", "claims an EPContext node that says it is another EP's"),
    Rule("EPV-CLAIM-006", "error", "claims a single node for which it has no kernel"),
    Rule("EPV-CTX-001", "error", "gives an EPContext node that is none"),
    Rule("EPV-CTX-002", "error", "gives an EPContext node without an attribute that it needs"),
    Rule("EPV-CTX-003", "error", "gives an EPContext node whose source is not the EP's name"),
    Rule("EPV-ALLOC-001", "error", "allocates memory that it gave before and that is not freed"),
    Rule("EPV-ALLOC-002", "error", "allocates memory that is not aligned as its memory info says"),
    Rule("EPV-ALLOC-003", "error", "has an allocator that does not say where its memory is"),
    Rule("EPV-XFER-001", "error", "refuses to copy between memories that it said it copies between"),
    Rule("EPV-STREAM-001", "error", "says that it makes streams, and has no function that does"),
)
RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _OF_ALL})
