"""For mkdocs: what pages link to outside of docs/ is files of the repository; the site has none of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#]*)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Write such a link as its text and, where that does not name it, the file.

    Raises:
        FileNotFoundError: the repository has no such file.
    """
    root = Path(config["docs_dir"]).parent

    def plain(link: re.Match[str]) -> str:
        text, path = link.groups()
        if not (root / path).exists():
            raise FileNotFoundError(f"{page.file.src_path} links to {path}, which is not there")
        return text if Path(path).name in text else f"{text} (`{path}`)"

    return _OUTSIDE.sub(plain, markdown)
