"""A rectangular table of numbers with intervals, written as csv, Markdown, HTML and LaTeX.

A table is data; the writers only render it. Best is bold, second best underlined, grey is shown but not ranked.
"""

from __future__ import annotations

import csv
import html
import io
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mdc.records import UserError, write_text

Mark = Literal["best", "second", "grey"]


@dataclass(frozen=True)
class Cell:
    """A number, its 95 % interval, how it is marked, and a short remark (a verdict, a published value)."""

    value: float | None
    low: float | None = None
    high: float | None = None
    mark: Mark | None = None
    note: str = ""


@dataclass(frozen=True)
class Column:
    """A column of numbers; neighbours with an equal ``group`` share a heading. ``note`` stands small below it.

    ``full``: its name in csv and Markdown, which have no headings over several columns (default: ``label``).
    """

    label: str
    group: str = ""
    note: str = ""
    full: str = ""

    @property
    def name(self) -> str:
        """What tells it from the other columns where groups are not shown."""
        return self.full or self.label


@dataclass(frozen=True)
class Row:
    """``labels`` fill the leading columns. A rule is drawn where ``block`` changes; ``reference`` rows are italic."""

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]
    block: str = ""
    reference: bool = False


@dataclass(frozen=True)
class Table:
    """``labels``: headings of the leading text columns. ``signed``: numbers are differences and show their sign."""

    title: str
    caption: tuple[str, ...]
    labels: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...] = ()
    decimals: int = 1
    signed: bool = False

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.labels) != len(self.labels) or len(row.cells) != len(self.columns):
                raise UserError(
                    f"table '{self.title}': row {row.labels} has {len(row.labels)} labels and {len(row.cells)} cells "
                    f"where {len(self.labels)} and {len(self.columns)} are needed"
                )

    def number(self, value: float | None) -> str:
        """The number as shown, with an ASCII minus; never ``-0.0``. None is empty."""
        if value is None:
            return ""
        # adding 0.0 turns the -0.0 that rounding may leave into 0.0
        rounded = round(value, self.decimals) + 0.0
        return f"{rounded:+.{self.decimals}f}" if self.signed else f"{rounded:.{self.decimals}f}"


def rank(values: Sequence[float | None], ranked: Sequence[bool], decimals: int = 1) -> list[Mark | None]:
    """Marks for one column of one block: the highest value ``best``, the next ``second``, unranked rows ``grey``.

    Compared as shown, that is after rounding, so equal-looking numbers are marked alike. After two or more best there
    is no second; one ranked number alone gets no mark; None gets none.
    """
    if len(values) != len(ranked):
        raise UserError(f"rank: {len(values)} values against {len(ranked)} flags")
    shown = [None if value is None else round(value, decimals) for value in values]
    field = [value for value, counts in zip(shown, ranked, strict=True) if counts and value is not None]
    marks: list[Mark | None] = []
    for value, counts in zip(shown, ranked, strict=True):
        if value is None:
            marks.append(None)
        elif not counts:
            marks.append("grey")
        elif len(field) < 2:
            marks.append(None)
        else:
            above = sum(other > value for other in field)
            marks.append("best" if above == 0 else "second" if above == 1 else None)
    return marks


def mark_rows(rows: Sequence[Row], ranked: Sequence[bool], decimals: int = 1) -> list[Row]:
    """``rows`` of one block with every column ranked; reference rows keep their cells."""
    chosen = [number for number, row in enumerate(rows) if not row.reference]
    marked = list(rows)
    if not chosen:
        return marked
    columns = []
    for place in range(len(rows[chosen[0]].cells)):
        values = [rows[number].cells[place].value for number in chosen]
        columns.append(rank(values, [ranked[number] for number in chosen], decimals))
    for order, number in enumerate(chosen):
        cells = tuple(replace(cell, mark=columns[i][order]) for i, cell in enumerate(rows[number].cells))
        marked[number] = replace(rows[number], cells=cells)
    return marked


# --- csv ------------------------------------------------------------------------------------------------------------


def write_csv(table: Table, path: str | Path, constant: Mapping[str, str] | None = None) -> None:
    """Labels and rounded numbers only, lower-case label headings; ``constant`` columns are added at the end."""
    extra = dict(constant or {})
    columns = [label.lower() for label in table.labels] + [column.name for column in table.columns] + list(extra)
    if len(set(columns)) != len(columns):
        raise UserError(f"{path}: column names repeat: {', '.join(columns)}")
    lines = [[*row.labels, *(_plain(table, cell.value) for cell in row.cells), *extra.values()] for row in table.rows]
    write_text(path, csv_text([dict(zip(columns, line, strict=True)) for line in lines], columns))


def _plain(table: Table, value: float | None) -> str:
    return replace(table, signed=False).number(value)


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """``rows`` as csv text with ``\\n`` line ends; None is empty, a float has 4 decimals."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_csv_value(row[column]) for column in columns])
    return buffer.getvalue()


def _csv_value(value: Any) -> str:
    if value is None:
        return ""
    return f"{round(value, 4) + 0.0:.4f}" if isinstance(value, float) else str(value)


# --- Markdown -------------------------------------------------------------------------------------------------------


def write_markdown(tables: Sequence[Table], path: str | Path) -> None:
    """GitHub-flavoured Markdown: best ``**bold**``, second ``<ins>underlined</ins>``, grey with ``†``."""
    write_text(path, "\n\n".join(_markdown(table) for table in tables) + "\n")


def _markdown(table: Table) -> str:
    head = [*table.labels, *(f"{c.name} ({c.note})" if c.note else c.name for c in table.columns)]
    lines = [f"### {_md(table.title)}", "", *(f"{_md(line)}  " for line in table.caption), ""]
    lines.append("| " + " | ".join(_md(text) for text in head) + " |")
    lines.append("|" + " --- |" * len(table.labels) + " ---: |" * len(table.columns))
    for row in table.rows:
        labels = [f"*{_md(label)}*" if row.reference and label else _md(label) for label in row.labels]
        lines.append("| " + " | ".join([*labels, *(_markdown_cell(table, cell) for cell in row.cells)]) + " |")
    if table.footnotes:
        lines += ["", *(f"- {_md(line)}" for line in table.footnotes)]
    return "\n".join(lines)


def _markdown_cell(table: Table, cell: Cell) -> str:
    text = _pretty(table.number(cell.value))
    wrapped = {"best": f"**{text}**", "second": f"<ins>{text}</ins>", "grey": f"{text}†", None: text}[cell.mark]
    return " ".join(part for part in (wrapped, _interval(table, cell), _md(cell.note)) if part)


def _md(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


# --- HTML -----------------------------------------------------------------------------------------------------------

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --paper: #ffffff; --rule: #d5dae0; --head: #f3f5f7;
  --second: #0b5cad; --grey: #737b84; --hover: #f0f5fb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #a0a9b4; --paper: #14171b; --rule: #353c45;
  --head: #1e2329; --second: #79b8ff; --grey: #8f98a3; --hover: #1d2733; } }
body { margin: 2rem auto; padding: 0 1.25rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
section + section { margin-top: 3.5rem; }
h2 { margin: 0 0 .4rem; font-size: 1.3rem; line-height: 1.3; }
p.caption { margin: 0 0 .25rem; color: var(--soft); font-size: .92rem; max-width: 62rem; }
div.scroll { margin-top: 1rem; overflow: auto; max-height: 88vh; }
@media (min-width: 72rem) { div.scroll { overflow: visible; max-height: none; } }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .7rem; text-align: right; white-space: nowrap; vertical-align: top; line-height: 1.25; }
th.label, td.label { text-align: left; }
thead { position: sticky; top: 0; z-index: 1; }
thead th { background: var(--head); font-weight: 600; vertical-align: bottom; }
thead th.group { text-align: center; padding-bottom: .1rem; border-bottom: 1px solid var(--rule); }
thead th.group + th.group { border-left: .8rem solid var(--head); }
thead tr:last-child th { border-bottom: 2px solid var(--rule); }
thead small { display: block; font-weight: 400; }
tbody tr.rule td { border-top: 1px solid var(--rule); }
tbody tr:first-child td { border-top: 0; }
tbody tr:hover td { background: var(--hover); }
td.same { color: var(--soft); opacity: .45; }
td small { display: block; color: var(--soft); font-size: .74rem; font-weight: 400; font-style: normal; }
td small.note { white-space: normal; max-width: 6.2rem; margin-left: auto; }
td.best > span { font-weight: 700; }
td.second > span { color: var(--second); text-decoration: underline; text-underline-offset: .18em; }
td.grey > span, td.label.grey { color: var(--grey); }
tr.reference td { font-style: italic; }
ul { margin: .8rem 0 0; padding-left: 1.1rem; color: var(--soft); font-size: .86rem; max-width: 62rem; }
@media print { div.scroll { max-height: none; overflow: visible; } thead { position: static; } }
"""


def write_html(tables: Sequence[Table], path: str | Path) -> None:
    """One page that needs nothing else: own style, light and dark, headings stay in view; all text escaped."""
    body = "\n".join(_html(table) for table in tables)
    title = html.escape(tables[0].title) if tables else ""
    write_text(
        path,
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n",
    )


def _html(table: Table) -> str:
    lines = ["<section>", f"<h2>{html.escape(table.title)}</h2>"]
    lines += [f'<p class="caption">{html.escape(line)}</p>' for line in table.caption]
    lines += ['<div class="scroll">', "<table>", "<thead>"]
    if any(column.group for column in table.columns):
        cells = [f'<th class="label" colspan="{len(table.labels)}"></th>']
        for group, span in _groups(table):
            kind = ' class="group" scope="colgroup"' if group else ""
            cells.append(f'<th{kind} colspan="{span}">{html.escape(group)}</th>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    heads = [f'<th class="label" scope="col">{html.escape(label)}</th>' for label in table.labels]
    for column in table.columns:
        note = f"<small>{html.escape(column.note)}</small>" if column.note else ""
        heads.append(f'<th scope="col">{html.escape(column.label)}{note}</th>')
    lines += [f"<tr>{''.join(heads)}</tr>", "</thead>", "<tbody>"]
    for before, row in zip((None, *table.rows), table.rows, strict=False):
        new_block = before is not None and before.block != row.block
        classes = [name for name, on in (("rule", new_block), ("reference", row.reference)) if on]
        kind = f' class="{" ".join(classes)}"' if classes else ""
        cells = []
        for place, label in enumerate(row.labels):
            same = before is not None and not new_block and before.labels[: place + 1] == row.labels[: place + 1]
            # a row that is grey throughout has its name, the last label, in grey
            grey = bool(row.cells) and place == len(row.labels) - 1 and all(cell.mark == "grey" for cell in row.cells)
            kinds = " ".join(name for name, on in (("label", True), ("same", same), ("grey", grey)) if on)
            cells.append(f'<td class="{kinds}">{html.escape(label)}</td>')
        cells += [_html_cell(table, cell) for cell in row.cells]
        lines.append(f"<tr{kind}>{''.join(cells)}</tr>")
    lines += ["</tbody>", "</table>", "</div>"]
    if table.footnotes:
        lines += ["<ul>", *(f"<li>{html.escape(line)}</li>" for line in table.footnotes), "</ul>"]
    return "\n".join([*lines, "</section>"])


def _html_cell(table: Table, cell: Cell) -> str:
    kind = f' class="{cell.mark}"' if cell.mark else ""
    interval, note = _interval(table, cell), html.escape(cell.note)
    small = (f"<small>{interval}</small>" if interval else "") + (f'<small class="note">{note}</small>' if note else "")
    return f"<td{kind}><span>{html.escape(_pretty(table.number(cell.value)))}</span>{small}</td>"


# --- LaTeX ----------------------------------------------------------------------------------------------------------


def write_latex(table: Table, path: str | Path) -> None:
    r"""A booktabs ``table`` environment; needs the packages booktabs and xcolor. Intervals stand below the value."""
    width, leading = len(table.columns), len(table.labels)
    title = _tex(re.sub(r"^Table [0-9]+[.] ", "", table.title))  # LaTeX counts its tables itself
    lines = [
        "% needs \\usepackage{booktabs,xcolor}",
        "\\begin{table}",
        "\\centering",
        "\\small",
        "\\setlength{\\tabcolsep}{4pt}",
        f"\\caption{{{title}. {' '.join(_tex(line) for line in table.caption)}}}",
        f"\\begin{{tabular}}{{{'l' * leading}{'r' * width}}}",
        "\\toprule",
    ]
    if any(column.group for column in table.columns):
        place, spans, rules = leading + 1, [" "] * leading, []
        for group, span in _groups(table):
            spans.append(f"\\multicolumn{{{span}}}{{c}}{{{_tex(group)}}}")
            if group:
                rules.append(f"\\cmidrule(lr){{{place}-{place + span - 1}}}")
            place += span
        lines += [" & ".join(spans) + r" \\", "".join(rules)]
    lines += [" & ".join([*map(_tex, table.labels), *(_tex(c.label) for c in table.columns)]) + r" \\", "\\midrule"]
    for before, row in zip((None, *table.rows), table.rows, strict=False):
        new_block = before is not None and before.block != row.block
        if new_block:
            lines.append("\\midrule")
        labels = []
        for place, label in enumerate(row.labels):
            same = before is not None and not new_block and before.labels[: place + 1] == row.labels[: place + 1]
            text = "" if same else _tex(label)
            labels.append(f"\\textit{{{text}}}" if row.reference and text else text)
        lines.append(" & ".join([*labels, *(_latex_cell(table, cell, row.reference) for cell in row.cells)]) + r" \\")
    lines += ["\\bottomrule", "\\end{tabular}"]
    lines += [f"\\par\\footnotesize {_tex(line)}" for line in table.footnotes]
    write_text(path, "\n".join([*lines, "\\end{table}"]) + "\n")


def _latex_cell(table: Table, cell: Cell, reference: bool) -> str:
    text = _tex(_pretty(table.number(cell.value)))
    wrap = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "grey": r"\textcolor{gray}{%s}", None: "%s"}[cell.mark]
    shown = wrap % (rf"\textit{{{text}}}" if reference and text else text)
    small = " ".join(_tex(part) for part in (_interval(table, cell), cell.note) if part)
    # \shortstack puts the interval below the number without widening the column much
    return rf"\shortstack[r]{{{shown}\\{{\tiny {small}}}}}" if small else shown


_TEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "−": "$-$",
    "–": "--",
    "…": r"\ldots{}",
    "≥": r"$\geq$",
    "±": r"$\pm$",
    "′": "$'$",
    "†": r"\dag{}",
    "[": "{[}",
    "]": "{]}",
}


def _tex(text: str) -> str:
    # brackets are guarded because [ after \\ starts an optional argument
    return "".join(_TEX.get(character, character) for character in text)


# --- shared ---------------------------------------------------------------------------------------------------------


def _groups(table: Table) -> list[tuple[str, int]]:
    runs = itertools.groupby(column.group for column in table.columns)
    return [(group, len(list(members))) for group, members in runs]


def _pretty(number: str) -> str:
    return number.replace("-", "−")


def _interval(table: Table, cell: Cell) -> str:
    """``[low, high]``, or nothing where there is no interval."""
    if cell.low is None or cell.high is None:
        return ""
    return f"[{_pretty(table.number(cell.low))}, {_pretty(table.number(cell.high))}]"
