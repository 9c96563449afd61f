"""docs/map.md: every file of src/mdc with the first sentence of its docstring.

``python tests/support/package_map.py`` writes it; a test holds it to the code.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/map.md"
#: the packages, each above those that it may import
PACKAGES = (
    "diffusion",
    "plan",
    "models",
    "data",
    "training",
    "report",
    "evaluation",
    "methods",
    "extensions",
    "checks",
    "app",
)
_HEAD = """# Map of the code

[README](../README.md) · [Index](README.md) · [Layout](layout.md)

What is each file of `src/mdc` for? Eleven packages are in layers: each imports only from packages above it on this page. A line
is the first sentence of the file's own docstring. The [README](../README.md#map) names the dozen files to read first.
`python tests/support/package_map.py` writes this page.
"""


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, as Markdown in a table's cell; "" where there is none."""
    paragraph, *_ = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")
    sentence = re.split(r"(?<=\.)\s+(?=[A-Z])", " ".join(paragraph.split()))[0]
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", sentence.replace("``", "`")).replace("|", "\\|")


def _folder(folder: Path) -> Iterator[str]:
    """The lines of a folder and of those within it."""
    yield f"\n{'##' if folder.parent.name == 'mdc' else '###'} {folder.relative_to(ROOT / 'src/mdc').as_posix()}\n"
    yield f"{first_sentence(folder / '__init__.py')}\n"
    files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    if files:
        yield "| file | what |\n|---|---|"
    for path in files:
        yield f"| [{path.name}](../{path.relative_to(ROOT).as_posix()}) | {first_sentence(path)} |"
    for inner in sorted(path.parent for path in folder.glob("*/__init__.py")):
        yield from _folder(inner)


def page() -> str:
    """The page as it should be."""
    lines = [line for name in PACKAGES for line in _folder(ROOT / "src/mdc" / name)]
    return "\n".join([_HEAD.rstrip("\n"), *lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
