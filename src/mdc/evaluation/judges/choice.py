"""Which letter an answer in free text chooses: read from what says so alone, and never guessed.

An answer chooses a letter where it stands alone ("B", "(b).", "Caption B" on a line of its own), where it labels the whole
answer ("B. A dog", "B: because …", "B - best"), where it is named as the choice ("Best: B", "I would pick B", "the caption that
best depicts the image is B", "the answer is **B**"), and where it is said to be the best ("B is the best", "caption B best
depicts …"). That a caption is only spoken of ("because caption A repeats words") chooses nothing, nor does what is denied ("I
would not pick A"). An answer that chooses two letters ("A or B", "the best are A and C") chooses none. The article of "A dog
runs" is no letter.
"""

from __future__ import annotations

import re

_NOUN = r"(?:caption|option|letter|choice|answer|number|sentence|description)"
#: what may stand between the words that announce a letter and the letter: marks of emphasis, quotation and brackets
_OPEN = r"[\s*_\"'`“‘(\[{$:=>-]*(?:\\(?:boxed|text)\{)*[\s*_\"'`“‘(\[{$]*"
_CLOSE = r"[*_\"'`”’)\]}$]*"
_IS = r"(?:\bis\b|\bwould\s+be\b|\bmust\s+be\b|\bshould\s+be\b|\bseems\s+to\s+be\b|\bappears\s+to\s+be\b|['’]s\b|[:=>])"
_GOOD = r"(?:accurate(?:ly)?|coherent|descriptive|detailed|precise|fitting|appropriate|suitable|faithful|complete)"
_BEST = (
    rf"(?:(?<!second.)(?<!next.)\bbest|winner|correct|right\s+(?:one|{_NOUN})"
    rf"|most\s+{_GOOD}(?:\s+and\s+(?:most\s+)?{_GOOD})?)"
)
_PICK = r"(?:choose|chose|chosen|pick(?:ed)?|select(?:ed)?|prefer|(?:go|went)\s+(?:with|for)|opt(?:ed)?\s+for|vote(?:d)?\s+for)"
#: these announce a choice only if nothing more is said of the letter ("I'd say B.", but not "I think B repeats words")
_SAY = r"(?:say|think|believe|(?:choos|pick|select)ing|going\s+(?:with|for)|it(?:['’]s|\s+is))"
#: what is said of a caption that is no praise
_FAULT = (
    r"(?!\s*(?:(?:is|are|was|does|do|has|have|and|but)\s+(?:not|wrong|incorrect|bad|worse|worst|awkward)|(?:is|does)n['’]t|not\b"
    r"|wrong\b|incorrect\b|bad\b|has\b|have\b|does\b|repeats\b|contains\b|lacks\b|misses\b|duplicates\b|sounds\b))"
)
_DENIED = re.compile(
    r"(?:\b(?:not|never|neither|nor|cannot|instead\s+of|rather\s+than)|n['’]t)\s+(?:\w+\s+){0,2}$", re.I
)


#: characters of an answer that is read: the time goes with their square
_LONGEST = 4000


def chosen_letter(answer: str, letters: str) -> str | None:
    """The letter of ``letters`` that an answer chooses; None if it chooses none, or more than one, or is far too long."""
    text = answer.strip()
    if len(text) > _LONGEST:
        return None
    text = re.sub(
        r"(\W{12})\W+", r"\1\n", re.sub(r"[^\S\n]+", " ", text)
    )  # long rows of marks say no more, and cost most
    reader = _Reader(text, letters)
    found = reader.alone() | reader.labels() | reader.named() | reader.praised()
    return found.pop() if len(found) == 1 else None


class _Reader:
    """Each method: the letters that one way of choosing finds in ``text``."""

    def __init__(self, text: str, letters: str) -> None:
        self.text, self.letters = text, letters
        one = rf"(?<![\w'’])[{letters}](?![\w'’])"
        joint = r"(?:\s*(?:[,/&+]|(?:,\s*)?\b(?:and|or)\b)\s*|\s*[-–—]\s*(?=\S\b))"
        marked = rf"[*_\"'`(\[]*(?:(?i:{_NOUN})\s+)?[*_\"'`(\[]*({one}){_CLOSE}"
        #: "A, B or C": who names one of them names all
        self._lists = [
            (found.span(), set(re.findall(one, found[0])))
            for found in re.finditer(rf"{marked}(?:{joint}(?:(?i:both|either|the)\s+)?{marked})+", text)
        ]
        # "A" and "I" are words too: a letter only where what follows cannot go on with a noun or a verb
        on = r"because|since|as|for|due|and|or|but|with|over|rather|instead|which|that|it|is|best|being"
        ends = rf"(?=[^\w\s]|\s*$|\s*[\n(–—-]|\s+(?:{on})\b)"
        self._letter = rf"(?<![\w'’])(?:([{letters}])(?<![AI])(?![\w'’])|([{letters}]){_CLOSE}{ends})"

    def alone(self) -> set[str]:
        """On a line of its own, in lower case too, with at most a word that says what it is."""
        word = rf"(?:(?:the|my|final|best)\s+)*(?:{_NOUN}\b|best\b)?(?:\s+is\b)?"
        found: set[str] = set()
        for line in self.text.splitlines():
            if whole := re.fullmatch(rf"\W*{word}{_OPEN}(?<!\w)([{self.letters}])\W*", line, re.IGNORECASE):
                found.add(whole[1].upper())
        return found

    def labels(self) -> set[str]:
        """At the beginning, as a label. Several labels ("A: repeats words. B: good") are a list and choose nothing."""
        label = rf"[*_\"'`(\[]*(?:(?i:(?:the\s+)?{_NOUN})\s+)?[*_\"'`(\[]*([{self.letters}])(?!\w)"
        marks = r"(?:[*_\"'`]*[.):\],][*_\"'`]*|[*_\"'`]+)(?!\w*['’]\w)|\s+[-–—](?=\s)|\s+(?:because|since)\b"
        places = list(re.finditer(rf"(?:^|(?<=[.;!?\n])\s*){label}(?:{marks})", self.text))
        if len({found[1] for found in places}) != 1:
            return set()
        first = places[0]
        if first.start() or not re.match(_FAULT, self.text[first.end() :], re.IGNORECASE):
            return set()
        return self._with_others(first.start(1), first[1])

    def named(self) -> set[str]:
        """As what is chosen: after "I choose", "the best … is", "answer:" and the like."""
        more = r"(?:\s+(?:that|clearly|definitely|probably|likely))*"
        noun = rf"[\s,]*(?i:(?:the\s+)?{_NOUN}\b)?(?i:\s+is\b)?{_OPEN}(?i:{_NOUN}\s+)?{_OPEN}"
        strong = rf"(?:\b{_PICK}|{_BEST}\b[^.;:,\n]*?{_IS}|\bbest\s*[-–—]|\b{_NOUN}\s*[\"'*_]*\s*{_IS}|\bboxed)"
        nothing_more = r"(?=\s*(?:[.!,;\n]|$|because\b|since\b))"
        return self._after(rf"(?i:{strong}{more}){noun}", rf"(?i:{_CLOSE}{_FAULT})") | self._after(
            rf"(?i:\b{_SAY}{more}(?:\s+it(?:\s+is|['’]s))?){noun}", rf"(?i:{_CLOSE}{nothing_more})"
        )

    def praised(self) -> set[str]:
        """As what is best: "B is the best", "caption B best depicts the image"."""
        best = rf"(?:is|was|seems|would\s+be)\s+(?:\w+ly\s+)?(?:the\s+)?(?:{_BEST}|answer|one)\b"
        does = r"(?:\w+ly\s+)?best\s+(?:depicts|describes|matches|captures|represents|reflects|fits|summari[sz]es)\b"
        found: set[str] = set()
        for one in re.finditer(rf"(?<![\w'’])([{self.letters}]){_CLOSE}\s+(?i:{best}|{does})", self.text):
            if not _DENIED.search(self.text[: one.start()]):
                found |= self._with_others(one.start(1), one[1])
        return found

    def _after(self, lead: str, behind: str) -> set[str]:
        found: set[str] = set()
        for one in re.finditer(rf"{lead}{self._letter}{behind}", self.text):
            if _DENIED.search(self.text[: one.start()]):
                continue
            group = 1 if one[1] else 2
            found |= self._with_others(one.start(group), one[group])
        return found

    def _with_others(self, place: int, letter: str) -> set[str]:
        """The letter at ``place``, and all that stand in one list with it."""
        return {letter}.union(*(some for (start, end), some in self._lists if start <= place < end))
