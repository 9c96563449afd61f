"""Tables as csv, and by templates as Markdown, HTML and LaTeX."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from mdc.plan.records import UserError, write_text
from mdc.report.csv_file import write_csv as write_rows
from mdc.report.tables.table import Table

#: files of the package that the output depends on: part of the fingerprint of every importing module
DATA_FILES = (
    "report/templates/style.css",
    "report/templates/captions.html.j2",
    "report/templates/table.html.j2",
    "report/templates/table.md.j2",
    "report/templates/table.tex.j2",
)
#: the delimiters of a LaTeX template
_LATEX: dict[str, Any] = {
    "block_start_string": r"\BLOCK{",
    "block_end_string": "}",
    "variable_start_string": r"\VAR{",
    "variable_end_string": "}",
    "comment_start_string": r"\#{",
    "comment_end_string": "}",
}


def write_csv(table: Table, path: str | Path, constant: Mapping[str, str] | None = None) -> None:
    """Labels (lower-case headings) and rounded numbers of the systems, without levels such as chance; ``constant`` columns are
    added at the end."""
    extra = dict(constant or {})
    columns = [label.lower() for label in table.labels] + [column.name for column in table.columns] + list(extra)
    if len(set(columns)) != len(columns):
        raise UserError(f"{path}: column names repeat: {', '.join(columns)}")
    lines = [
        [*row.labels, *(table.rounded(cell) for cell in row.cells), *extra.values()]
        for row in table.rows
        if not row.level
    ]
    write_rows(path, [dict(zip(columns, line, strict=True)) for line in lines], columns)


def write_pages(tables: Sequence[Table], out: Path, name: str) -> None:
    r"""All ``tables`` as HTML, one page that needs nothing else, and as GitHub-flavoured Markdown (best ``**bold**``, second
    ``<ins>underlined</ins>``, grey with ``†``); the first as a booktabs ``table`` of LaTeX, which needs booktabs and xcolor."""
    write_page(out / f"{name}.html", "table.html.j2", tables=tables)
    write_page(out / f"{name}.md", "table.md.j2", tables=tables)
    # LaTeX counts its tables itself
    title = re.sub(r"^Table [0-9]+[.] ", "", tables[0].title)
    write_page(out / f"{name}.tex", "table.tex.j2", table=tables[0], title=title)


def write_page(path: str | Path, template: str, **values: Any) -> None:
    """Write a page from its template; HTML is escaped."""
    write_text(
        path, _environment(template.removesuffix(".j2").rpartition(".")[2]).get_template(template).render(values)
    )


@cache
def _environment(kind: str) -> Environment:
    environment = Environment(
        loader=PackageLoader("mdc.report"),
        autoescape=kind == "html",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **(_LATEX if kind == "tex" else {}),
    )
    environment.filters |= {"md": escape_markdown, "tex": escape_latex}
    return environment


def escape_markdown(text: str) -> str:
    """``text`` with a backslash before every character that is markup in Markdown."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


def escape_latex(text: str) -> str:
    """``text`` escaped for LaTeX, with the few characters beyond ASCII that occur in tables."""
    return text.translate(_TEX)


_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{letter: f"\\{letter}" for letter in "{}&%$#_"},
        **{letter: f"${letter}$" for letter in "<>|"},
        "−": "$-$",
        "–": "--",
        "…": r"\ldots{}",
        "≥": r"$\geq$",
        "±": r"$\pm$",
        "Σ": r"$\Sigma$",
        "α": r"$\alpha$",
        "β": r"$\beta$",
        "′": "$'$",
        "†": r"\dag{}",
        # guarded, because [ after \\ begins an optional argument
        "[": "{[}",
        "]": "{]}",
    }
)
