"""For mkdocs: pages link to files of the repository outside of docs/, and the site has pages of these.

Markdown files become pages as they are; programs and headers pages with the file in them; a folder a page
that lists its files. What they are is found by following links, so whatever a page links to is there.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)*[^):\s#]+)((?:#[^)]*)?)\)")
# A role of docstrings, which names what stands behind it: "~" leaves its last part.
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):<code>(?:~[\w.]*\.)?([^<]*)</code>")
_LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".cc": "cpp", ".toml": "toml", ".sh": "sh"}
_FOLDER = "repository"


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page for each file and folder of the repository that a page links to.

    Raises:
        FileNotFoundError: the repository has no such file.
    """
    root = Path(config["docs_dir"]).parent
    pages = [Path(file.abs_src_path) for file in files.documentation_pages()]
    done: set[Path] = set()
    while pages:
        for target in _outside(pages.pop(), root) - done:
            done.add(target)
            content, linked = _page(target, root)
            files.append(File.generated(config, _place(target, root), content=content))
            pages += linked
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Write links to files outside of docs/ as links to their pages."""
    root = Path(config["docs_dir"]).parent
    place = page.file.src_path
    if place.startswith(_FOLDER):
        return markdown  # made with its links
    return _LINK.sub(lambda link: _written(link, root / "docs", place, root), markdown)


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """Leave what docstrings refer to by a role as code: the site has its own links."""
    return _ROLE.sub(r"<code>\1</code>", html)


def _place(target: Path, root: Path) -> str:
    """Where the page of a file or folder lies on the site."""
    name = target.relative_to(root).as_posix()
    return f"{_FOLDER}/{name}" if name.endswith(".md") else f"{_FOLDER}/{name}.md"


def _outside(source: Path, root: Path) -> set[Path]:
    """What a file links to that lies in the repository, but not in docs/."""
    found = set()
    for link in _LINK.finditer(source.read_text()):
        target = Path(os.path.normpath(source.parent / link[2]))
        if target.is_relative_to(root) and not target.is_relative_to(root / "docs"):
            if not target.exists():
                raise FileNotFoundError(f"{source.relative_to(root)} links to {link[2]}, which is not there")
            found.add(target)
    return found


def _page(target: Path, root: Path) -> tuple[str, list[Path]]:
    """The page of a file or folder; and itself, if what it links to is to have pages, too."""
    name = target.relative_to(root).as_posix()
    if target.is_dir():
        names = sorted(file.name for file in target.iterdir() if file.suffix in _LANGUAGES)
        return f"# {name}\n\n" + "\n".join(f"- `{each}`" for each in names), []
    text = target.read_text()
    if target.suffix == ".md":
        place = _place(target, root)
        return _LINK.sub(lambda link: _written(link, target.parent, place, root), text), [target]
    return f"# {name}\n\n````{_LANGUAGES.get(target.suffix, 'text')}\n{text}````\n", []


def _written(link: re.Match[str], folder: Path, place: str, root: Path) -> str:
    """A link that stands in a page at this place, and was written for a file in the folder."""
    text, path, part = link.groups()
    target = Path(os.path.normpath(folder / path))
    if not target.is_relative_to(root):
        return link[0]
    docs = root / "docs"
    there = target.relative_to(docs).as_posix() if target.is_relative_to(docs) else _place(target, root)
    return f"[{text}]({os.path.relpath(there, Path(place).parent)}{part})"
