"""The public headers as they were at an older API version: what is newer is cut from their structs."""

import re
from pathlib import Path

STRUCT = re.compile(r"^(struct \w+ \{\n)(.*?)^(\};)", re.S | re.M)
MARK = re.compile(r"EPHOST_SINCE\((\d+)\)")


def cut(include: Path, target: Path, version: int) -> Path:
    """Writes the headers in ``include`` into ``target``, without the members newer than ``version``.

    Structs only grow at their ends, so what is newer is what comes behind the first mark of a newer version.
    Structs of which nothing is left stay, with nothing in them.
    """

    def shortened(struct: re.Match[str]) -> str:
        newer = (mark.start() for mark in MARK.finditer(struct[2]) if int(mark[1]) > version)
        return f"{struct[1]}{struct[2][: next(newer, len(struct[2]))].rstrip(' ')}{struct[3]}"

    for header in sorted(include.rglob("*.h")):
        place = target / header.relative_to(include)
        place.parent.mkdir(parents=True, exist_ok=True)
        text = STRUCT.sub(shortened, header.read_text(encoding="utf-8"))
        text = re.sub(r"(#define ORT_API_VERSION) \d+", rf"\1 {version}", text)
        place.write_text(text, encoding="utf-8")
    return target
