"""Captions of a scene in three styles: like web alt-text, like dense machine-written descriptions, and brief."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mdc.data.scenes.language import JUNK, WORDS, Claim, Number, Relation, article, plural
from mdc.data.scenes.streams import Draws, draws_for
from mdc.data.scenes.world import OPPOSITE, Description, Scene, arrangement

USUAL = 0.75  # probability of the usual word where there are synonyms
WRONG = 0.06  # share of alt captions that are made to say something false
JUNK_ONLY = 0.03  # share of alt captions that say nothing about the scene
JUNK_BESIDE = 0.3  # share of the other alt captions that contain junk too

#: a relation, and the earlier kind to which it is
Link = tuple[str, Description]
#: a text, and its false claims
Phrase = tuple[str, tuple[Claim, ...]]


@dataclass(frozen=True)
class Caption:
    """The text, and its deliberate false claims, as texts of `Claim`. Dense captions have none."""

    text: str
    errors: tuple[str, ...] = ()


def _a(noun: str) -> str:
    return f"{article(noun)} {noun}"


class _Writer:
    """Draws words and noun phrases for a scene."""

    def __init__(self, scene: Scene, draws: Draws) -> None:
        self.scene, self.draws = scene, draws

    def word(self, kind: str, value: Any) -> str:
        """A word for a value, mostly the usual one."""
        words = WORDS[kind][value]
        return words[0] if len(words) == 1 or self.draws.chance(USUAL) else self.draws.pick(words[1:])

    def thing(self, count: int) -> str:
        """A noun without a shape."""
        noun = self.draws.pick(WORDS["thing"][None])
        return plural(noun) if count > 1 else noun

    def noun(self, desc: Description, count: int = 1) -> str:
        """Attributes and noun, without a determiner."""
        words = [self.word(kind, value) for kind, value in zip(desc._fields, desc, strict=True) if value]
        if desc.shape is None:
            return " ".join([*words, self.thing(count)])
        return plural(" ".join(words)) if count > 1 else " ".join(words)

    def number(self, count: int, digits: bool) -> str:
        """A number before a noun."""
        if digits and self.draws.chance(0.3):
            return str(count)
        return "a pair of" if count == 2 and self.draws.chance(0.15) else WORDS["count"][count][0]

    def reference(self, kind: Description) -> Description:
        """A description, usually short, that fits only this kind's objects."""
        shapeless, sizeless = Description(colour=kind.colour), kind._replace(size=None)
        short = [Description(shape=kind.shape), sizeless, kind._replace(colour=None), shapeless]
        shortest = int(self.draws.chance(0.3))
        return next((desc for desc in short[shortest:] if desc.among(self.scene) == self.scene.kinds[kind]), kind)

    def partial(self, kind: Description) -> Description:
        """Some of a kind's attributes, at least one."""
        with_shape, with_colour = self.draws.chance(0.93), self.draws.chance(0.85)
        return Description(
            kind.size if self.draws.chance(0.3) else None,
            kind.colour if with_colour or not with_shape else None,
            kind.shape if with_shape else None,
        )


# ---------------------------------------------------------------------------------------------------------- dense


class _Dense(_Writer):
    def introduced(self, kind: Description) -> str:
        """The first mention of a kind: its number, every attribute, and the arrangement of two objects."""
        count = len(self.scene.kinds[kind])
        if count == 1:
            noun = self.noun(kind)
            return f"one {noun}" if self.draws.chance(0.1) else _a(noun)
        text = f"{self.number(count, digits=False)} {self.noun(kind, count)}"
        stand = arrangement(self.scene.kinds[kind])
        return f"{text} {self.word('arrangement', stand)}" if stand else text

    def referred(self, kind: Description) -> str:
        """A later mention."""
        desc, count = self.reference(kind), len(self.scene.kinds[kind])
        noun = self.noun(desc, count)
        return f"the {WORDS['count'][count][0]} {noun}" if count > 1 and self.draws.chance(0.5) else f"the {noun}"

    def where(self, link: Link) -> str:
        """The relation to an earlier kind."""
        return f"{self.word('relation', link[0])} {self.referred(link[1])}"

    def steps(self) -> list[tuple[Description, Link | None]]:
        """(kind, relation to an earlier kind or None) in an order in which each has such a relation, if it has any."""
        relations = self.scene.relations
        waiting = self.draws.sample(list(self.scene.kinds), len(self.scene.kinds))
        steps: list[tuple[Description, Link | None]] = [(waiting.pop(0), None)]
        while waiting:
            links = [(k, (relations[k, e], e)) for k in waiting for e, _ in steps if (k, e) in relations]
            kind, link = self.draws.pick(links) if links else (waiting[0], None)
            waiting.remove(kind)
            steps.append((kind, link))
        return steps

    def is_(self, kind: Description) -> str:
        """ "is" or "are"."""
        return "is" if len(self.scene.kinds[kind]) == 1 else "are"

    def opened(self, text: str, several: bool) -> str:
        """The first sentence, with or without an opening that makes no claim."""
        opening = "there are" if several else "there is"
        return f"{self.draws.pick(('', '', opening, 'we see', 'this picture shows'))} {text}".strip()

    def total(self) -> str:
        """The number of all objects."""
        count = len(self.scene.objects)
        return f"{WORDS['count'][count][0]} {self.thing(count)}"

    def caption(self) -> str:
        """The whole caption."""
        return f"{'. '.join(self.sentences() if len(self.scene.kinds) > 1 else [self.of_one_kind()])}."

    def of_one_kind(self) -> str:
        (kind,), count = self.scene.kinds, len(self.scene.objects)
        text = self.introduced(kind)
        if count == 1 and self.draws.chance(0.2):
            text = f"a single {self.noun(kind)}"
        if self.draws.chance(0.25):
            return f"{self.opened(self.total(), count > 1)}: {text}"
        return f"{self.opened(text, count > 1)}{self.draws.pick(('', '', ' in this image', ' in all'))}"

    def sentences(self) -> list[str]:
        draws, few = self.draws, len(self.scene.kinds) <= 3
        (first, _), *rest = self.steps()
        mentions = {kind: self.introduced(kind) for kind in (first, *(kind for kind, _ in rest))}
        total = self.total()
        opening = draws.chance(0.5)
        head = self.opened(total, several=True) if opening else ""

        def listed(parts: Iterable[str]) -> str:
            *most, last = parts
            text = f"{', '.join(most)} and {last}"
            return f"{head}: {text}" if opening else self.opened(text, len(self.scene.kinds[first]) > 1)

        if few and draws.chance(0.35):
            sentences = [listed(mentions.values())]
            for kind, link in rest:
                if link is not None:
                    a, b = self.referred(kind), self.referred(link[1])
                    sentences.append(f"{a} {self.is_(kind)} {self.word('relation', link[0])} {b}")
        elif few and draws.chance(0.6):
            sentences = [head] if opening else []
            second, link = rest[0]
            if link is not None and draws.chance(0.6):
                rest = rest[1:]
                relation = self.word("relation", link[0])
                sentences.append(f"{mentions[second]} {self.is_(second)} {relation} {mentions[first]}")
            else:
                sentences.append(f"there {self.is_(first)} {mentions[first]}")
            for kind, link in rest:
                a, is_ = mentions[kind], self.is_(kind)
                if link is None:
                    sentences.append(f"there {is_} also {a}")
                    continue
                where = self.where(link)
                sentences.append(f"{where} {is_} {a}" if draws.chance(0.4) else f"{a} {is_} {where}")
        else:
            parts = [f"{mentions[kind]} {self.where(link)}" if link else mentions[kind] for kind, link in rest]
            sentences = [listed([mentions[first], *parts])]
        if not opening and draws.chance(0.3):
            sentences.append(f"{total} in {draws.pick(('all', 'total'))}")
        return sentences


# ------------------------------------------------------------------------------------------------------------ alt


class _Alt(_Writer):
    def phrased(self, desc: Description, count: int) -> tuple[str, Number]:
        """A noun phrase for ``count`` objects, which need not have the number, and its claim."""
        noun = self.noun(desc, count)
        if count == 1:
            if self.draws.chance(0.08):
                return f"one {noun}", Number(desc, 1, exact=True)
            return _a(noun) if self.draws.chance(0.5) else noun, Number(desc, 1, exact=False)
        if self.draws.chance(0.2):
            return noun, Number(desc, 2, exact=False)
        return f"{self.number(count, digits=True)} {noun}", Number(desc, count, exact=True)

    def falsified(self, desc: Description, count: int) -> tuple[Description, int]:
        """The description with a colour or shape that nothing in the scene has, or a wrong number of several."""
        kinds = [k for k, on in (("colour", desc.colour), ("shape", desc.shape), ("count", count > 1)) if on]
        change = self.draws.pick(kinds)
        if change == "count":
            return desc, self.draws.pick([n for n in (2, 3, 4) if n != count])
        present = {getattr(thing, change) for thing in self.scene.objects}
        return desc._replace(**{change: self.draws.pick([v for v in WORDS[change] if v not in present])}), count

    def mention(self, kind: Description, wrong: bool = False) -> Phrase:
        """A noun phrase about a kind."""
        desc = self.partial(kind)
        count = len(desc.among(self.scene))
        if wrong:
            desc, count = self.falsified(desc, count)
        text, claim = self.phrased(desc, count)
        # "circles" without a number stays true if only the number is wrong
        return text, (claim,) if wrong and not claim.holds(self.scene) else ()

    def relation(self, wrong: bool) -> Phrase | None:
        """A phrase about the relation of two single objects; None if the scene has no such pair."""
        pairs = self.scene.single_relations
        if not pairs:
            return None
        pair = self.draws.pick(pairs)
        name = self.scene.relations[pair]
        name = OPPOSITE[name] if wrong else name
        texts, descriptions = [], []
        for kind in pair:
            desc = self.reference(kind)
            if self.draws.chance(0.75):  # alt-text often has a colour where the shape is enough
                desc = desc._replace(colour=kind.colour)
            noun = self.noun(desc)
            descriptions.append(desc)
            texts.append(self.draws.pick((noun, _a(noun), f"the {noun}")))
        text = f"{texts[0]} {self.word('relation', name)} {texts[1]}"
        return text, (Relation(descriptions[0], name, descriptions[1]),) if wrong else ()

    def core(self, wrong: bool) -> Phrase:
        """The part of the caption about the scene."""
        kinds, count, form = list(self.scene.kinds), len(self.scene.objects), self.draws.uniform()
        if len(kinds) > 1 and form < 0.4 and (related := self.relation(wrong)) is not None:
            return related
        if len(kinds) > 1 and form < 0.75:
            a, b = self.draws.sample(kinds, 2)
            first, errors = self.mention(a, wrong)
            second, _ = self.mention(b)
            return f"{first}{self.draws.pick((' and ', ' with ', ', '))}{second}", errors
        if count > 1 and form > 0.92 and not wrong:
            return f"{self.number(count, digits=True)} {self.thing(count)}", ()
        return self.mention(self.draws.pick(kinds), wrong)

    def junk(self) -> str:
        """Words that have nothing to do with the scene."""
        u = self.draws.uniform()
        if u < 0.2:
            return f"{self.draws.pick(('img', 'dsc'))}_{self.draws.between(0, 9999):04d}"
        phrase = self.draws.pick(JUNK)
        return f"{phrase} {self.draws.between(2012, 2023)}" if u < 0.4 else phrase

    def caption(self) -> Caption:
        """The whole caption."""
        if self.draws.chance(JUNK_ONLY):
            return Caption(self.junk())
        text, errors = self.core(wrong=self.draws.chance(WRONG))
        if self.draws.chance(JUNK_BESIDE):
            junk, gap = self.junk(), self.draws.pick((" - ", " ", ", "))
            text = f"{text}{gap}{junk}" if self.draws.chance(0.6) else f"{junk}{gap}{text}"
        return Caption(text, tuple(map(str, errors)))


# ---------------------------------------------------------------------------------------------------------- brief


def _brief(writer: _Writer) -> str:
    """One to three true words about one kind of object: its colour, its shape, or both."""
    desc = writer.partial(writer.draws.pick(list(writer.scene.kinds)))._replace(size=None)
    return writer.noun(desc, len(desc.among(writer.scene)))


def compose(scene: Scene, style: str, seed: int, index: int) -> Caption:
    """The caption of the scene in this style, with its deliberate errors; the same for the same arguments.

    ``alt``: short, partial, sometimes wrong, sometimes with junk. ``brief``: a few true words. ``dense``: true and complete:
    every kind of object with its number, size, colour and shape; the arrangement of two like objects, if it is clear; and
    relations that link all kinds which clear relations link. None mentions the background.
    """
    draws = draws_for(style, "train", seed, index)
    if style == "alt":
        return _Alt(scene, draws).caption()
    return Caption(_Dense(scene, draws).caption() if style == "dense" else _brief(_Writer(scene, draws)))
