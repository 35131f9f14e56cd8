"""Whether libraries for Windows move vectors of 32 and 64 bytes by instructions that want aligned memory.

python aligned_moves.py OBJDUMP REGISTERS LIBRARY...

GCC takes a stack for aligned to them that Windows aligns to 16 bytes (its bug 54412), so no such instruction
may be there, whatever it moves. REGISTERS (ymm,zmm) have to be in the libraries: what uses no vectors proves
nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys

_ALIGNED = re.compile(r"\tv(?:movap[sd]|movdqa(?:32|64)?|movntp[sd]|movntdqa?)\s[^#]*%[yz]mm")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_SHOWN = 20


def main() -> int:
    """Print what is wrong; 1 if something is."""
    objdump, registers, *libraries = sys.argv[1:]
    wrong = 0
    for library in libraries:
        command = [objdump, "-d", "--no-show-raw-insn", library]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        counts = {register: text.count(f"%{register}") for register in registers.split(",")}
        function, found = "", []
        for line in text.splitlines():
            if named := _FUNCTION.match(line):
                function = named[1]
            # From one register to another nothing has to be aligned.
            elif "(" in line and _ALIGNED.search(line):
                found.append(f"  {function}: {' '.join(line.split())}")
        uses = ", ".join(f"{register} {count} times" for register, count in counts.items())
        print(f"{library.rsplit('/', 1)[-1]}: uses {uses}; {len(found)} moves want aligned memory")
        print("\n".join(found[:_SHOWN]), end="\n" if found else "")
        missing = [register for register, count in counts.items() if count == 0]
        if missing:
            print(f"  WRONG: it does not use {', '.join(missing)}")
        wrong += len(found) + len(missing)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
