"""Draw docs/stages.svg: which job reads what, from the registry of verbs and the plans of scales.

A box is a verb, in the colour of its stage; its number counts its jobs at ``mini``. A dark arrow leads from a verb to one that
reads its files; a pale one does, too, where a longer way of dark arrows leads there anyway. ``python docs/make_stages.py`` writes
it, and a test holds it to the plans.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from mdc.plan.config.read import load
from mdc.plan.jobs.plan import Plan
from mdc.plan.verbs import VERBS

ROOT = Path(__file__).resolve().parents[1]
#: the scales whose plans say who reads what; the first one's jobs are counted
SCALES = ("mini", "paper", "flickr8k-claims", "flickr8k")
#: stage → colour
_COLOURS = {
    "data": "#D9E6F2",
    "encoders": "#E8DCF0",
    "trainings": "#CFEADF",
    "probes": "#FBE3C8",
    "scoring": "#FBE3C8",
    "captions": "#FBE3C8",
    "tables and figures": "#F3D3DC",
}
_WIDTH, _HEIGHT, _ACROSS, _DOWN, _TOP = 128, 34, 146, 66, 40
_PAGE = 920


def reads() -> tuple[dict[str, set[str]], Counter[str]]:
    """Verb → the verbs whose files it reads; and how many jobs of each there are at the first scale."""
    found: dict[str, set[str]] = {verb: set() for verb in VERBS}
    counts: Counter[str] = Counter()
    for scale in SCALES:
        jobs = Plan(load(ROOT / "params.yaml", scale)).jobs
        for job in jobs.values():
            found[job.verb] |= {jobs[name].verb for name in job.inputs} - {job.verb}
        counts = counts or Counter(job.verb for job in jobs.values())
    return found, counts


def rows(found: Mapping[str, set[str]]) -> list[list[str]]:
    """The verbs by the longest way that leads to them."""
    depth: dict[str, int] = {}

    def of(verb: str) -> int:
        if verb not in depth:
            depth[verb] = max((1 + of(one) for one in found[verb]), default=0)
        return depth[verb]

    last = max(map(of, found))
    return [[verb for verb in found if depth[verb] == number] for number in range(last + 1)]


def implied(found: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    """The pairs (read, reader) that a longer way joins, too."""

    def behind(verb: str) -> set[str]:
        return found[verb].union(*map(behind, found[verb]))

    return {
        (one, verb) for verb, own in found.items() for one in own if any(one in behind(other) for other in own - {one})
    }


def _places(found: Mapping[str, set[str]], ordered: list[list[str]]) -> dict[str, tuple[float, float]]:
    """The corner of each box: below the middle of what it reads, and beside the others of its row."""
    place: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(ordered):
        above = {verb: [place[one][0] for one in found[verb]] for verb in row}
        wanted = {verb: sum(xs) / len(xs) if xs else (_PAGE - _WIDTH) / 2 for verb, xs in above.items()}
        left = sum(wanted.values()) / len(row) - _ACROSS * (len(row) - 1) / 2
        left = min(max(left, 16), _PAGE - 16 - _WIDTH - _ACROSS * (len(row) - 1))
        for column, verb in enumerate(sorted(row, key=lambda verb: wanted[verb])):
            place[verb] = (round(left + _ACROSS * column), _TOP + _DOWN * number)
    return place


def svg() -> str:
    """The picture."""
    found, counts = reads()
    ordered, pale = rows(found), implied(found)
    place = _places(found, ordered)
    lines = []
    for dark in (False, True):
        for verb, own in found.items():
            for one in (one for one in found if one in own and ((one, verb) in pale) != dark):
                (x1, y1), (x2, y2) = place[one], place[verb]
                x1, x2, y1, y2 = x1 + _WIDTH / 2, x2 + _WIDTH / 2, y1 + _HEIGHT, y2 - 3
                bend = 0.45 * (y2 - y1)
                path = f"M{x1:g} {y1:g} C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
                look = (
                    'stroke="#4A5560" marker-end="url(#dark)"' if dark else 'stroke="#D5DAE0" marker-end="url(#pale)"'
                )
                lines.append(f'<path d="{path}" fill="none" stroke-width="1.2" {look}/>')
    for verb, (x, y) in place.items():
        count = f"{counts[verb]} at mini" if counts[verb] else "none at mini"
        look = f'rx="5" fill="{_COLOURS[VERBS[verb].stage]}" stroke="#8A949E"'
        lines += [
            f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" {look}/>',
            f'<text x="{x + _WIDTH / 2:g}" y="{y + 15:g}" text-anchor="middle" font-weight="bold">{verb}</text>',
            f'<text x="{x + _WIDTH / 2:g}" y="{y + 28:g}" text-anchor="middle" fill="#55606B" font-size="9">{count}</text>',
        ]
    legend: dict[str, list[str]] = {}
    for stage, colour in _COLOURS.items():
        legend.setdefault(colour, []).append(stage)
    for number, (colour, stages) in enumerate(legend.items()):
        x = 16 + number * 190
        lines.append(f'<rect x="{x}" y="8" width="12" height="12" fill="{colour}" stroke="#8A949E"/>')
        lines.append(f'<text x="{x + 17}" y="18">{", ".join(stages)}</text>')
    width, height = _PAGE, _TOP + _DOWN * len(ordered)
    heads = "".join(
        f'<marker id="{name}" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
        f'<path d="M0 0 L6 3 L0 6 z" fill="{colour}"/></marker>'
        for name, colour in (("dark", "#4A5560"), ("pale", "#D5DAE0"))
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="DejaVu Sans, Arial, sans-serif" font-size="11">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f"<defs>{heads}</defs>",
            *lines,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    (ROOT / "docs/stages.svg").write_text(svg(), encoding="utf-8")
