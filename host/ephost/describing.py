"""What can be asked of an open session: inputs, outputs, metadata, execution providers, who runs what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from ephost.device_memory import Transport
from ephost.devices import OrtMemoryInfo
from ephost.enums import OrtAllocatorType, OrtMemType
from ephost.environment import OrtEpDevice
from ephost.errors import Fail
from ephost.feeds import type_text
from ephost.model.graph import Metadata, TensorType, Value, told
from ephost.native_session import NativeNames
from ephost.opening import Opened
from ephost.options import SessionOptions
from ephost.providers import DEFAULT_PROVIDER
from ephost.records import Record
from ephost.resources import Resources

RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"


class NodeArg(Record, frozen=True):
    """An input or output of a model: name, type as onnxruntime writes it, and shape (str: named)."""

    name: str
    type: str
    shape: list[int | str | None]

    def __hash__(self) -> int:
        return hash((self.name, self.type, tuple(self.shape)))


class ModelMetadata(Record, frozen=True):
    """What a model says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]

    def __hash__(self) -> int:
        return hash((self.graph_name, self.version))


class OrtEpAssignedNode(Record, frozen=True):
    """A node of the model, as it was claimed."""

    name: str
    domain: str
    op_type: str


class OrtEpAssignedSubgraph(Record, frozen=True):
    """Nodes that one execution provider runs together."""

    ep_name: str
    nodes: tuple[OrtEpAssignedNode, ...]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """The nodes, in topological order."""
        return list(self.nodes)


class Described(NativeNames):
    """What an open session says of itself."""

    _options: SessionOptions
    _opened: Opened

    @property
    def _resources(self) -> Resources:
        return self._opened.resources

    @property
    def description(self) -> str:
        """What messages call the session: its model's path, or its name."""
        return self._opened.description

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that every run must feed."""
        return [_node_arg(v) for v in self._opened.interface.inputs[: self._opened.interface.required]]

    def get_outputs(self) -> list[NodeArg]:
        """The model's outputs."""
        return [_node_arg(v) for v in self._opened.interface.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a default."""
        return [_node_arg(v) for v in self._opened.overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        about: Metadata = self._opened.model.metadata
        return ModelMetadata(
            about.producer_name,
            about.graph_name,
            about.domain,
            about.description,
            about.graph_description,
            about.version,
            dict(about.custom),
        )

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """Its execution providers in order of priority; the host's fallback is the last."""
        names = [assignment.ep.name for assignment in self._opened.resources.assignments]
        return list(dict.fromkeys([*names, DEFAULT_PROVIDER]))

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each of its execution providers."""
        found = {a.ep.name: dict(a.ep.options) for a in self._opened.resources.assignments}
        return {**found, DEFAULT_PROVIDER: found.get(DEFAULT_PROVIDER, {})}

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """Which execution provider runs which nodes of the model: of the host's own each node by itself.

        Raises:
            Fail: ``session.record_ep_graph_assignment_info`` is not "1".
        """
        if self._options._config.get(RECORD_ASSIGNMENT) != "1":
            raise Fail(
                f"Session configuration entry '{RECORD_ASSIGNMENT}' must be set to \"1\" to retrieve EP "
                "graph assignment information."
            )
        return [
            OrtEpAssignedSubgraph(
                step.ep_name or DEFAULT_PROVIDER,
                tuple(OrtEpAssignedNode(n.name, n.domain, n.op_type) for n in members),
            )
            for step in self._opened.plan.all_steps()
            for members in (
                [step.members] if step.ep_name not in ("", DEFAULT_PROVIDER) else ([n] for n in step.members)
            )
        ]

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where a feed for each input should lie: in the memory of the execution provider that reads it."""
        return self._memory_infos(self._opened.plan.input_memories[: self._opened.interface.required])

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where each output is made."""
        return self._memory_infos(self._opened.plan.output_memories)

    def _memory_infos(self, memories: Sequence[Transport | None]) -> list[OrtMemoryInfo]:
        arena = self._options.enable_cpu_mem_arena
        return [_cpu_memory(arena) if m is None else OrtMemoryInfo._copy_of(m.info) for m in memories]

    def get_input_epdevices(self) -> list[OrtEpDevice | None]:
        """For each input the device of the execution provider that reads it first; None: the reference
        fallback.
        """
        devices = {a.ep.name: a.ep.devices[0] for a in self._opened.resources.assignments}
        readers = (next((node.ep_name for node in v.consumers), "") for v in self._required_inputs())
        return [devices.get(name) for name in readers]

    def _required_inputs(self) -> Iterator[Value]:
        yield from self._opened.interface.inputs[: self._opened.interface.required]

    def __repr__(self) -> str:
        return f"InferenceSession({self.description!r}, providers={self.get_providers()})"

    def _repr_html_(self) -> str:
        from ephost.notebooks import session_html

        return session_html(self)


def _node_arg(value: Value) -> NodeArg:
    dims = value.type.dims if isinstance(value.type, TensorType) and value.type.dims is not None else ()
    return NodeArg(value.name, type_text(value.type), told(dims))


@cache
def _cpu_memory(arena: bool) -> OrtMemoryInfo:
    kind = OrtAllocatorType.ORT_ARENA_ALLOCATOR if arena else OrtAllocatorType.ORT_DEVICE_ALLOCATOR
    return OrtMemoryInfo("Cpu", kind, 0, OrtMemType.DEFAULT)
