"""Models drawn at random for what happens between claims: functions, nodes that do nothing, branches, loops.

Each model computes with float32 tensors of one shape, so that every operator fits behind every other. Which
nodes an execution provider claims follows from their operators: the samples claim those of ``CLAIMED``, and
nobody claims those of ``UNCLAIMED``. Numbers stay small: only sums and differences make them larger.
"""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

SHAPE = (2, 3)
OPSET = 21
CLAIMED = ["Abs", "Neg", "Relu", "Sigmoid", "Tanh"]
UNCLAIMED = ["Elu", "HardSigmoid", "LeakyRelu", "Erf"]
BINARY = ["Add", "Sub", "Max"]  # the last one is nobody's
CONSTANTS = {
    "one": np.ones((), np.float32),
    "zero": np.zeros((), np.float32),
    "weight": np.linspace(-1, 1, 6, dtype=np.float32).reshape(SHAPE),
    "shape": np.array(SHAPE, np.int64),
    "yes": np.array(True),
    "trips": np.array(3),
    "first": np.array([0]),
}
# What hands its first input on, given names for its output and for what is in between.
IDLE = [
    lambda x, y, t: [helper.make_node("Identity", [x], [y])],
    lambda x, y, t: [helper.make_node("Cast", [x], [y], to=TensorProto.FLOAT)],
    lambda x, y, t: [helper.make_node("CastLike", [x, "weight"], [y])],
    lambda x, y, t: [helper.make_node("Mul", [x, "one"], [y])],
    lambda x, y, t: [helper.make_node("Add", ["zero", x], [y])],
    lambda x, y, t: [helper.make_node("Dropout", [x], [y])],
    lambda x, y, t: [helper.make_node("Expand", [x, "shape"], [y])],
    lambda x, y, t: [helper.make_node("Transpose", [x], [y], perm=[0, 1])],
    lambda x, y, t: [helper.make_node("Reshape", [x, "shape"], [y])],
    lambda x, y, t: [helper.make_node("Transpose", [x], [t]), helper.make_node("Transpose", [t], [y])],
    lambda x, y, t: [helper.make_node("Shape", [x], [t]), helper.make_node("Reshape", [x, t], [y])],
    lambda x, y, t: [
        helper.make_node("Constant", [], [t], value_float=1.0),
        helper.make_node("Div", [x, t], [y]),
    ],
]


class _Body:
    """Nodes that are drawn one after the other, and the names of what they have made."""

    def __init__(self, draw: st.DrawFn, given: list[str], prefix: str, functions: list[onnx.FunctionProto]):
        self.draw = draw
        self.prefix = prefix
        self.functions = functions
        self.values = list(given)
        self.nodes: list[onnx.NodeProto] = []
        self.ends: list[str] = []
        self._made = 0

    def name(self) -> str:
        self._made += 1
        return f"{self.prefix}{self._made}"

    def pick(self) -> str:
        # The newest values are the likeliest: long chains find more than broad fans.
        return self.draw(st.sampled_from(self.values[-3:] if self.draw(st.booleans()) else self.values))

    def grow(self, kinds: list[str]) -> None:
        kind = self.draw(st.sampled_from(kinds))
        made = self.name()
        getattr(self, f"_{kind}")(made)
        self.values.append(made)

    def _unary(self, made: str) -> None:
        self.nodes.append(
            helper.make_node(self.draw(st.sampled_from(CLAIMED + UNCLAIMED)), [self.pick()], [made])
        )

    def _binary(self, made: str) -> None:
        self.nodes.append(
            helper.make_node(self.draw(st.sampled_from(BINARY)), [self.pick(), self.pick()], [made])
        )

    def _idle(self, made: str) -> None:
        self.nodes.extend(self.draw(st.sampled_from(IDLE))(self.pick(), made, f"{made}_t"))

    def _call(self, made: str) -> None:
        if not self.functions:
            return self._idle(made)
        function = self.draw(st.sampled_from(self.functions))
        inputs = [self.pick() for _ in function.input[: -len(CONSTANTS)]]
        outputs = [made, *(f"{made}_{at}" for at in range(1, len(function.output)))]
        self.nodes.append(
            helper.make_node(function.name, [*inputs, *CONSTANTS], outputs, domain=function.domain)
        )
        self.values.extend(outputs[1:])
        return None

    def _decide(self, made: str) -> None:
        """An If whose condition is an input, a constant, or known once a function's body is in its place."""
        source = self.draw(st.sampled_from(["condition", "yes", "called"]))
        if source == "called":
            source = f"{made}_c"
            self.nodes.append(helper.make_node("Decided", [], [source], domain="f"))
        branches = {}
        for branch in ("then_branch", "else_branch"):
            body = _Body(self.draw, self.values, f"{made}_{branch[0]}", self.functions)
            for _ in range(self.draw(st.integers(1, 3))):
                body.grow(["unary", "binary", "idle", "call"])
            out = helper.make_tensor_value_info(body.values[-1], TensorProto.FLOAT, SHAPE)
            branches[branch] = helper.make_graph(body.nodes, branch, [], [out])
        self.nodes.append(helper.make_node("If", [source], [made], **branches))

    def _repeat(self, made: str) -> None:
        """A Loop, and maybe a Scan over what it collects; either's collection is summed up."""
        states = [f"{made}_s{at}" for at in range(self.draw(st.integers(1, 2)))]
        given = [self.pick() for _ in states]
        body = self._round(made, "b", states)
        body.nodes.append(helper.make_node("Identity", [f"{made}_go"], [f"{made}_on"]))
        graph = helper.make_graph(
            body.nodes,
            f"{made}_body",
            [
                helper.make_tensor_value_info(f"{made}_i", TensorProto.INT64, []),
                helper.make_tensor_value_info(f"{made}_go", TensorProto.BOOL, []),
                *(helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in states),
            ],
            [
                helper.make_tensor_value_info(f"{made}_on", TensorProto.BOOL, []),
                *(helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in body.ends),
            ],
        )
        going = self.draw(st.sampled_from(["", "condition"]))
        last = [f"{made}_l{at}" for at in range(len(states))]
        self.nodes.append(
            helper.make_node("Loop", ["trips", going, *given], [*last, f"{made}_all"], body=graph)
        )
        self.values.extend(last)
        collected = f"{made}_all"
        if self.draw(st.booleans()):
            collected = self._scan(made, collected)
        self.nodes.append(helper.make_node("ReduceSum", [collected, "first"], [made], keepdims=0))

    def _scan(self, made: str, rows: str) -> str:
        given, state, row = self.pick(), f"{made}_t", f"{made}_r"
        body = self._round(made, "d", [state, row], 1)
        graph = helper.make_graph(
            body.nodes,
            f"{made}_scan",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in (state, row)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in body.ends],
        )
        self.nodes.append(
            helper.make_node(
                "Scan",
                [given, rows],
                [f"{made}_u", f"{made}_w"],
                body=graph,
                num_scan_inputs=1,
                scan_input_directions=[self.draw(st.integers(0, 1))],
                scan_output_directions=[self.draw(st.integers(0, 1))],
            )
        )
        self.values.append(f"{made}_u")
        return f"{made}_w"

    def _round(self, made: str, prefix: str, states: list[str], kept: int | None = None) -> _Body:
        """A body that reads what is around it, too; ``ends`` are its new states, then what is collected."""
        body = _Body(self.draw, [*self.values, *states], f"{made}_{prefix}", self.functions)
        kinds = ["unary", "binary", "idle", "call", "decide"]
        for _ in range(self.draw(st.integers(1, 3))):
            body.grow(kinds if "_b" in made or "_d" in made else [*kinds, "repeat"])
        for at in range((len(states) if kept is None else kept) + 1):
            end = f"{made}_{prefix}_e{at}"
            body.nodes.append(helper.make_node("Identity", [body.pick()], [end]))
            body.ends.append(end)
        return body

    def _from_nothing(self, made: str) -> None:
        """A tensor of zeros that only a function's body shows to be constant."""
        self.nodes.append(helper.make_node("Zeros", ["shape"], [made], domain="f"))


def _function(name: str, inputs: list[str], outputs: list[str], nodes: list[onnx.NodeProto]):
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, inputs, outputs, nodes, imports)


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """A model with an input ``x`` of SHAPE and a bool ``condition``, and one to three outputs."""
    functions: list[onnx.FunctionProto] = []
    for at in range(draw(st.integers(0, 3))):
        given = ["p", "q"][: draw(st.integers(1, 2))]
        body = _Body(draw, given, "v", functions)
        for _ in range(draw(st.integers(1, 4))):
            body.grow(["unary", "binary", "idle", "idle", "call"])
        outputs = [body.values[-1]]
        if draw(st.booleans()) and len(body.values) > len(given) + 1:
            outputs.append(body.values[-2])
        functions.append(_function(f"F{at}", [*given, *CONSTANTS], outputs, body.nodes))
    body = _Body(draw, ["x"], "m", functions)
    for _ in range(draw(st.integers(1, 10))):
        body.grow(
            ["unary", "unary", "binary", "idle", "idle", "call", "call", "decide", "repeat", "from_nothing"]
        )
    made = [name for name in body.values if name != "x"]
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    fixed = [
        _function("Decided", [], ["y"], [helper.make_node("Constant", [], ["y"], value=_tensor("yes", "y"))]),
        _function("Zeros", ["s"], ["y"], [helper.make_node("ConstantOfShape", ["s"], ["y"])]),
    ]
    graph = helper.make_graph(
        body.nodes,
        "generated",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE),
            helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in outputs],
        [_tensor(name, name) for name in CONSTANTS],
    )
    return helper.make_model(
        graph,
        functions=[*functions, *fixed],
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("f", 1)],
        ir_version=10,
    )


def _tensor(constant: str, name: str) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(CONSTANTS[constant], name)
