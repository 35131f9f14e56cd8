"""The expected ABI (the tables beside this file) and the declared one (the headers), in one form.

The tables hold facts about the published ABI, written down independently of the headers: ``since`` is the API
version in which a member appeared, empty where it is as old as the member before it.
"""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
INCLUDE = ROOT / "include"
HEADERS = sorted((INCLUDE / "ephost").glob("*.h"))


@dataclass(frozen=True)
class Member:
    """One member of a struct: a slot (``returns`` is its result type) or a field (``returns`` is empty)."""

    name: str
    returns: str
    params: str
    since: int  # 0: as old as the struct

    @property
    def is_slot(self) -> bool:
        return bool(self.returns)


def rows(name: str) -> list[dict[str, str]]:
    """The rows of one of the tables beside this file."""
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def normal(text: str) -> str:
    """A declaration with the white space that C ignores taken out and calling conventions left out."""
    text = " ".join(text.replace("ORT_API_CALL", "").split())
    return re.sub(r"\s*([*(),;{}\[\]])\s*", r"\1", text)


def expected_structs() -> dict[str, list[Member]]:
    """Struct name -> members, from the table."""
    structs: dict[str, list[Member]] = {}
    for row in rows("abi_slots.tsv"):
        members = structs.setdefault(row["struct"], [])
        assert int(row["index"]) == len(members), row
        since = int(row["since"]) if row["since"] else members[-1].since if members else 0
        members.append(Member(row["member"], normal(row["returns"]), normal(row["params"]), since))
    return structs


def text_of(header: Path) -> str:
    """A header's text without comments."""
    return re.sub(r"/\*.*?\*/", " ", header.read_text(encoding="utf-8"), flags=re.S)


def all_text() -> str:
    """All headers' text without comments."""
    return "\n".join(map(text_of, HEADERS))


def declared_structs() -> dict[str, list[Member]]:
    """Struct name -> members, from the headers' text."""
    structs: dict[str, list[Member]] = {}
    for struct, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", all_text(), flags=re.S | re.M):
        assert struct not in structs, f"{struct} is declared twice"
        members: list[Member] = []
        since = 0
        for part in re.split(r"(EPHOST_SINCE\(\d+\))", body):
            if mark := re.fullmatch(r"EPHOST_SINCE\((\d+)\)", part):
                since = int(mark[1])
                continue
            for declaration in re.findall(r"[^;{]+(?:\{[^}]*\}[^;]*)?;", part):
                declaration = declaration.strip()[:-1]
                slot = re.fullmatch(r"(.*?)\(ORT_API_CALL\* (\w+)\)\((.*)\)", declaration, flags=re.S)
                if slot:
                    members.append(Member(slot[2], normal(slot[1]), normal(slot[3]), since))
                else:
                    field = normal(declaration)
                    name = re.search(r"(\w+)$", field)
                    assert name, declaration
                    members.append(Member(name[1], "", field, since))
        structs[struct] = members
    return structs


def _scalar_sizes() -> dict[str, int]:
    sizes = {"bool": 1, "int": 4, "uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8, "size_t": 8}
    sizes |= {row["enum"]: 4 for row in rows("abi_enums.tsv")}
    sizes |= {row["name"]: 8 for row in rows("abi_types.tsv") if row["declaration"]}
    return sizes


def expected_layout(struct: str, structs: dict[str, list[Member]]) -> tuple[list[int], int, int]:
    """Offsets of a struct's members, its size and alignment on a 64-bit machine, from the table alone."""
    offsets: list[int] = []
    end, widest = 0, 1
    for member in structs[struct]:
        size, align = _size_of(member, structs)
        end = -(-end // align) * align
        offsets.append(end)
        end += size
        widest = max(widest, align)
    return offsets, -(-end // widest) * widest, widest


def _size_of(member: Member, structs: dict[str, list[Member]]) -> tuple[int, int]:
    if member.is_slot or "*" in member.params:
        return 8, 8
    if union := re.match(r"union\{(.*)\}", member.params):
        sizes = []
        for field in filter(None, union[1].split(";")):
            kind, count = re.fullmatch(r"(\w+) \w+(?:\[(\d+)\])?", field).groups()  # type: ignore[union-attr]
            sizes.append((_scalar_sizes()[kind] * int(count or 1), _scalar_sizes()[kind]))
        return max(size for size, _ in sizes), max(align for _, align in sizes)
    kind = member.params.rsplit(" ", 1)[0]
    if kind in structs:
        _, size, align = expected_layout(kind, structs)
        return size, align
    size = _scalar_sizes()[kind]
    return size, size
