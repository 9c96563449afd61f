"""Captions of a scene in the styles that stand in for web alt-text, machine-written dense description, and short captions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mdc.data.scenes.language import (
    ANY_SHAPE,
    ARRANGEMENT_WORDS,
    COLOUR_WORDS,
    JUNK,
    NUMBER_WORDS,
    RELATION_WORDS,
    SHAPE_WORDS,
    SIZE_WORDS,
    Claim,
    Description,
    Number,
    Relation,
    arrangement,
    plural,
)
from mdc.data.scenes.streams import Draws, draws_for
from mdc.data.scenes.world import COLOURS, OPPOSITE, SHAPES, Kind, Scene, SceneObject
from mdc.plan.records import UserError

STYLES = ("alt", "dense", "brief")
USUAL = 0.75  # probability of the usual word where there are synonyms
WRONG = 0.06  # share of alt captions that are made to say something false
JUNK_ONLY = 0.03  # share of alt captions that say nothing about the scene
JUNK_BESIDE = 0.3  # share of the other alt captions that contain junk too


@dataclass(frozen=True)
class Caption:
    """The text, and its claims that are false on purpose, as texts of `Claim`. Dense captions have none."""

    text: str
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Phrase:
    """A noun phrase and what it claims."""

    text: str
    claim: Number


def _word(draws: Draws, words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 or draws.chance(USUAL) else draws.pick(words[1:])


def _noun(draws: Draws, what: Description, several: bool) -> str:
    """Attributes and noun, without a determiner."""
    words = []
    if what.size:
        words.append(_word(draws, SIZE_WORDS[what.size]))
    if what.colour:
        words.append(_word(draws, COLOUR_WORDS[what.colour]))
    noun = _word(draws, SHAPE_WORDS[what.shape]) if what.shape else draws.pick(ANY_SHAPE)
    return " ".join([*words, plural(noun) if several else noun])


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _number_word(draws: Draws, count: int, digits: bool) -> str:
    if digits and draws.chance(0.3):
        return str(count)
    return "a pair of" if count == 2 and draws.chance(0.15) else NUMBER_WORDS[count]


def _full(kind: Kind) -> Description:
    return Description(*kind)


# ---------------------------------------------------------------------------------------------------------- dense


def _introduced(draws: Draws, kind: Kind, members: tuple[SceneObject, ...]) -> str:
    """The first mention of a kind: its number, every attribute, and how two objects of this kind stand."""
    what, count = _full(kind), len(members)
    if count == 1:
        noun = _noun(draws, what, several=False)
        return f"one {noun}" if draws.chance(0.1) else _a(noun)
    text = f"{_number_word(draws, count, digits=False)} {_noun(draws, what, several=True)}"
    stand = arrangement(members)
    return f"{text} {_word(draws, ARRANGEMENT_WORDS[stand])}" if stand else text


def _reference(draws: Draws, scene: Scene, kind: Kind) -> Description:
    """A description, usually a short one, that fits this kind's objects and no others."""
    members = list(scene.kinds[kind])
    size, colour, shape = kind
    candidates = [
        Description(shape=shape),
        Description(colour=colour, shape=shape),
        Description(size=size, shape=shape),
    ]
    if draws.chance(0.3):
        candidates = candidates[1:]
    for what in [*candidates, Description(colour=colour)]:
        if what.among(scene) == members:
            return what
    return _full(kind)


def _referred(draws: Draws, scene: Scene, kind: Kind) -> str:
    what, count = _reference(draws, scene, kind), len(scene.kinds[kind])
    noun = _noun(draws, what, several=count > 1)
    return f"the {NUMBER_WORDS[count]} {noun}" if count > 1 and draws.chance(0.5) else f"the {noun}"


def _spanning(draws: Draws, scene: Scene) -> list[tuple[Kind, str | None, Kind | None]]:
    """The kinds in an order in which each has a relation to an earlier one, if it has a relation to any.

    Each entry is (kind, its relation to the earlier kind, the earlier kind).
    """
    relations = scene.relations
    waiting = draws.sample(list(scene.kinds), len(scene.kinds))
    steps: list[tuple[Kind, str | None, Kind | None]] = [(waiting.pop(0), None, None)]
    while waiting:
        links = [(k, relations[k, e], e) for k in waiting for e, _, _ in steps if (k, e) in relations]
        step = draws.pick(links) if links else (waiting[0], None, None)
        waiting.remove(step[0])
        steps.append(step)
    return steps


def _is(scene: Scene, kind: Kind) -> str:
    return "is" if len(scene.kinds[kind]) == 1 else "are"


def _opened(draws: Draws, text: str, several: bool) -> str:
    """The first sentence, with or without an opening that makes no claim."""
    opening = draws.pick(("", "", "there are" if several else "there is", "we see", "this picture shows"))
    return f"{opening} {text}".strip()


def _total(draws: Draws, count: int) -> str:
    generic = draws.pick(ANY_SHAPE)
    return f"{NUMBER_WORDS[count]} {plural(generic) if count > 1 else generic}"


def _dense_one_kind(draws: Draws, scene: Scene) -> str:
    ((kind, members),) = scene.kinds.items()
    text = _introduced(draws, kind, members)
    if len(members) == 1 and draws.chance(0.2):
        text = f"a single {_noun(draws, _full(kind), several=False)}"
    if draws.chance(0.25):
        return f"{_opened(draws, _total(draws, len(members)), len(members) > 1)}: {text}."
    return f"{_opened(draws, text, len(members) > 1)}{draws.pick(('', '', ' in this image', ' in all'))}."


def _dense(draws: Draws, scene: Scene) -> str:
    kinds = scene.kinds
    if len(kinds) == 1:
        return _dense_one_kind(draws, scene)
    steps = _spanning(draws, scene)
    mentions = {kind: _introduced(draws, kind, kinds[kind]) for kind, _, _ in steps}
    total = _total(draws, len(scene.objects))
    first = steps[0][0]
    opening = draws.chance(0.5)
    head = _opened(draws, total, several=True) if opening else ""
    if len(kinds) <= 3 and draws.chance(0.35):
        listed = ", ".join(mentions[kind] for kind, _, _ in steps[:-1]) + f" and {mentions[steps[-1][0]]}"
        sentences = [f"{head}: {listed}" if opening else _opened(draws, listed, len(kinds[first]) > 1)]
        for kind, name, earlier in steps:
            if name is not None and earlier is not None:
                a, b = (_referred(draws, scene, k) for k in (kind, earlier))
                sentences.append(f"{a} {_is(scene, kind)} {_word(draws, RELATION_WORDS[name])} {b}")
    elif len(kinds) <= 3 and draws.chance(0.6):
        sentences = [head] if opening else []
        rest = steps[1:]
        second, name, _ = rest[0]
        if name is not None and draws.chance(0.6):
            rest = rest[1:]
            a, b = mentions[second], mentions[first]
            sentences.append(f"{a} {_is(scene, second)} {_word(draws, RELATION_WORDS[name])} {b}")
        else:
            sentences.append(f"there {_is(scene, first)} {mentions[first]}")
        for kind, name, earlier in rest:
            if name is None or earlier is None:
                sentences.append(f"there {_is(scene, kind)} also {mentions[kind]}")
                continue
            where = f"{_word(draws, RELATION_WORDS[name])} {_referred(draws, scene, earlier)}"
            inverted = draws.chance(0.4)
            a = mentions[kind]
            sentences.append(f"{where} {_is(scene, kind)} {a}" if inverted else f"{a} {_is(scene, kind)} {where}")
    else:
        parts = [mentions[first]]
        for kind, name, earlier in steps[1:]:
            where = (
                ""
                if name is None or earlier is None
                else (f" {_word(draws, RELATION_WORDS[name])} {_referred(draws, scene, earlier)}")
            )
            parts.append(mentions[kind] + where)
        listed = ", ".join(parts[:-1]) + f" and {parts[-1]}"
        sentences = [f"{head}: {listed}" if opening else _opened(draws, listed, len(kinds[first]) > 1)]
    if not opening and draws.chance(0.3):
        sentences.append(f"{total} in {draws.pick(('all', 'total'))}")
    return ". ".join(sentences) + "."


# ------------------------------------------------------------------------------------------------------------ alt


def _partial(draws: Draws, kind: Kind) -> Description:
    """Some of a kind's attributes, at least one."""
    size, colour, shape = kind
    with_shape, with_colour = draws.chance(0.93), draws.chance(0.85)
    return Description(
        size if draws.chance(0.3) else None,
        colour if with_colour or not with_shape else None,
        shape if with_shape else None,
    )


def _phrased(draws: Draws, what: Description, count: int) -> _Phrase:
    """A noun phrase for ``count`` objects, which need not say the number."""
    if count == 1:
        noun = _noun(draws, what, several=False)
        if draws.chance(0.08):
            return _Phrase(f"one {noun}", Number(what, 1, exact=True))
        return _Phrase(_a(noun) if draws.chance(0.5) else noun, Number(what, 1, exact=False))
    noun = _noun(draws, what, several=True)
    if draws.chance(0.2):
        return _Phrase(noun, Number(what, 2, exact=False))
    return _Phrase(f"{_number_word(draws, count, digits=True)} {noun}", Number(what, count, exact=True))


def _falsified(draws: Draws, scene: Scene, what: Description, count: int) -> tuple[Description, int]:
    """The description with a colour or shape that nothing in the scene has, or a wrong number of several."""
    kinds = [k for k, on in (("colour", what.colour), ("shape", what.shape), ("count", count > 1)) if on]
    change = draws.pick(kinds)
    if change == "colour":
        return replace(
            what, colour=draws.pick([c for c in COLOURS if all(o.colour != c for o in scene.objects)])
        ), count
    if change == "shape":
        return replace(what, shape=draws.pick([s for s in SHAPES if all(o.shape != s for o in scene.objects)])), count
    return what, draws.pick([n for n in (2, 3, 4) if n != count])


def _mention(draws: Draws, scene: Scene, kind: Kind, wrong: bool) -> tuple[str, tuple[Claim, ...]]:
    """A noun phrase about a kind, and its claim if the claim is false."""
    what = _partial(draws, kind)
    count = len(what.among(scene))
    if not wrong:
        return _phrased(draws, what, count).text, ()
    what, count = _falsified(draws, scene, what, count)
    phrase = _phrased(draws, what, count)
    # "circles" without a number stays true when only the number was to be wrong.
    return phrase.text, () if phrase.claim.holds(scene) else (phrase.claim,)


def _alt_relation(draws: Draws, scene: Scene, wrong: bool) -> tuple[str, tuple[Claim, ...]] | None:
    """A phrase about two single objects and how they stand; None if the scene has no such pair."""
    pairs = [pair for pair in scene.relations if all(len(scene.kinds[kind]) == 1 for kind in pair)]
    if not pairs:
        return None
    a, b = draws.pick(pairs)
    name = scene.relations[a, b]
    said = OPPOSITE[name] if wrong else name
    texts, whats = [], []
    for kind in (a, b):
        what = _reference(draws, scene, kind)
        colourful = replace(what, colour=kind[1])  # alt-text names colours even where shape would do
        what = colourful if draws.chance(0.75) else what
        noun = _noun(draws, what, several=False)
        whats.append(what)
        texts.append(draws.pick((noun, _a(noun), f"the {noun}")))
    text = f"{texts[0]} {_word(draws, RELATION_WORDS[said])} {texts[1]}"
    return text, (Relation(whats[0], said, whats[1]),) if wrong else ()


def _alt_core(draws: Draws, scene: Scene, wrong: bool) -> tuple[str, tuple[Claim, ...]]:
    kinds = list(scene.kinds)
    form = draws.uniform()
    if len(kinds) > 1 and form < 0.4 and (related := _alt_relation(draws, scene, wrong)) is not None:
        return related
    if len(kinds) > 1 and form < 0.75:
        a, b = draws.sample(kinds, 2)
        first, errors = _mention(draws, scene, a, wrong)
        second, _ = _mention(draws, scene, b, wrong=False)
        return f"{first}{draws.pick((' and ', ' with ', ', '))}{second}", errors
    if len(scene.objects) > 1 and form > 0.92 and not wrong:
        return f"{_number_word(draws, len(scene.objects), digits=True)} {plural(draws.pick(ANY_SHAPE))}", ()
    return _mention(draws, scene, draws.pick(kinds), wrong)


def _junk(draws: Draws) -> str:
    u = draws.uniform()
    if u < 0.2:
        return f"{draws.pick(('img', 'dsc'))}_{draws.between(0, 9999):04d}"
    phrase = draws.pick(JUNK)
    return f"{phrase} {draws.between(2012, 2023)}" if u < 0.4 else phrase


def _alt(draws: Draws, scene: Scene) -> Caption:
    if draws.chance(JUNK_ONLY):
        return Caption(_junk(draws))
    text, errors = _alt_core(draws, scene, wrong=draws.chance(WRONG))
    if draws.chance(JUNK_BESIDE):
        junk, gap = _junk(draws), draws.pick((" - ", " ", ", "))
        text = f"{text}{gap}{junk}" if draws.chance(0.6) else f"{junk}{gap}{text}"
    return Caption(text, tuple(str(claim) for claim in errors))


# ---------------------------------------------------------------------------------------------------------- brief


def _brief(draws: Draws, scene: Scene) -> str:
    """One to three true words about one kind of object: its colour, its shape, or both."""
    kind = draws.pick(list(scene.kinds))
    what = replace(_partial(draws, kind), size=None)
    return _noun(draws, what, several=len(what.among(scene)) > 1)


def compose(scene: Scene, style: str, seed: int, index: int) -> Caption:
    """The caption of the scene in this style, with its deliberate errors; the same for the same arguments.

    ``alt``: short, partial, sometimes wrong, sometimes with junk. ``dense``: true and complete in the sense of
    `mdc.data.scenes.check`. ``brief``: a few true words. None says anything about the background. Raises `UserError` for
    an unknown style.
    """
    if style not in STYLES:
        raise UserError(f"scenes: unknown caption style {style!r}; allowed: {', '.join(STYLES)}")
    draws = draws_for(style, "train", seed, index)
    if style == "alt":
        return _alt(draws, scene)
    return Caption(_dense(draws, scene) if style == "dense" else _brief(draws, scene))


def describe(scene: Scene, style: str, seed: int, index: int) -> str:
    """The text of `compose`."""
    return compose(scene, style, seed, index).text
