"""CHAIR: objects that a caption names and that are not in its image (Rohrbach et al., 2018).

Objects are MSCOCO's 80 categories. An image has those of its instances file and those that its references name. The synonyms
are ours, so values are close to those of the authors' list, but not equal.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.gzipped import read_json_value
from mdc.plan.records import UserError

#: category → synonyms in the singular; longer phrases take precedence
WORDS: Mapping[str, str] = {
    "person": "man, woman, boy, girl, child, kid, baby, toddler, guy, lady, gentleman, adult, player, skier, snowboarder, "
    "surfer, skateboarder, rider, cyclist, biker, batter, catcher, pitcher, umpire, chef, a cook, the cook, waiter, worker, "
    "officer, policeman, soldier, fireman, farmer, student, teacher, tourist, pedestrian, passenger, driver, bride, "
    "groom, mother, father, son, daughter, brother, sister, husband, wife, friend, crowd, people, group of people, "
    "cowboy, clown, nun, monk, swimmer, runner, jogger",
    "bicycle": "bike, cycle, tricycle",
    "car": "automobile, sedan, suv, hatchback, taxi, cab, minivan, van, convertible, jeep, limousine, police car",
    "motorcycle": "motorbike, motor bike, motor cycle, moped, scooter, dirt bike",
    "airplane": "plane, aeroplane, aircraft, jet, jetliner, airliner, biplane, seaplane",
    "bus": "double decker, minibus, trolley bus, school bus, coach bus",
    "train": "locomotive, tram, streetcar, subway, freight train, steam engine",
    "truck": "lorry, pickup, fire truck, firetruck, fire engine, tow truck, semi, tractor trailer, pick up truck, pickup truck",
    "boat": "ship, sailboat, canoe, kayak, yacht, ferry, rowboat, motorboat, barge, raft, gondola, tugboat, vessel, cruise ship",
    "traffic light": "stoplight, stop light, traffic signal, street light, streetlight, signal light",
    "fire hydrant": "hydrant",
    "stop sign": "",
    "parking meter": "",
    "bench": "pew, park bench",
    "bird": "seagull, gull, pigeon, duck, goose, swan, parrot, owl, eagle, hawk, chicken, rooster, hen, penguin, ostrich, "
    "peacock, flamingo, crow, sparrow, finch, pelican, heron, duckling, turkey, dove",
    "cat": "kitten, kitty, tabby",
    "dog": "puppy, pup, poodle, beagle, terrier, labrador, retriever, bulldog, pug, collie, dachshund, husky, chihuahua, "
    "shepherd dog",
    "horse": "pony, foal, stallion, mare, colt",
    "sheep": "lamb, ram, ewe",
    "cow": "cattle, bull, calf, ox, oxen, bison, steer",
    "elephant": "",
    "bear": "polar bear, grizzly bear, grizzly, panda, brown bear, black bear, cub",
    "zebra": "",
    "giraffe": "",
    "backpack": "rucksack, knapsack",
    "umbrella": "parasol",
    "handbag": "purse, wallet, hand bag, tote bag",
    "tie": "necktie, neck tie, bow tie, bowtie",
    "suitcase": "luggage, suit case, briefcase",
    "frisbee": "flying disc, disc",
    "skis": "ski",
    "snowboard": "snow board",
    "sports ball": "ball, baseball, basketball, football, soccer ball, tennis ball, volleyball",
    "kite": "",
    "baseball bat": "bat",
    "baseball glove": "mitt, catcher's mitt",
    "skateboard": "skate board, longboard",
    "surfboard": "surf board, boogie board, body board",
    "tennis racket": "racket, racquet, tennis racquet",
    "bottle": "",
    "wine glass": "wineglass",
    "cup": "mug, coffee cup, teacup",
    "fork": "",
    "knife": "butter knife",
    "spoon": "ladle",
    "bowl": "",
    "banana": "",
    "apple": "",
    "sandwich": "burger, hamburger, cheeseburger, sub sandwich, panini",
    "orange": "tangerine, clementine",
    "broccoli": "",
    "carrot": "",
    "hot dog": "hotdog, sausage in a bun",
    "pizza": "",
    "donut": "doughnut",
    "cake": "cupcake, birthday cake, cheesecake",
    "chair": "armchair, recliner, stool, high chair, lounge chair",
    "couch": "sofa, loveseat, futon",
    "potted plant": "houseplant, house plant, flower pot, plant in a pot",
    "bed": "bunk bed, crib, mattress",
    "dining table": "table, kitchen table, picnic table",
    "toilet": "urinal, commode, toilet seat",
    "tv": "television, tv set, flat screen, tv screen, television set",
    "laptop": "notebook computer, laptop computer, macbook",
    "mouse": "computer mouse",
    "remote": "remote control, game controller, controller, wii remote",
    "keyboard": "computer keyboard",
    "cell phone": "cellphone, mobile phone, smartphone, smart phone, telephone, phone, iphone",
    "microwave": "microwave oven",
    "oven": "stove, stove top, stovetop, stove top oven, kitchen range, gas range",
    "toaster": "",
    "sink": "washbasin, wash basin",
    "refrigerator": "fridge, freezer",
    "book": "novel, textbook",
    "clock": "wall clock, clock tower, alarm clock",
    "vase": "",
    "scissors": "scissor",
    "teddy bear": "teddy, stuffed bear, stuffed animal",
    "hair drier": "hair dryer, hairdryer, blow dryer",
    "toothbrush": "tooth brush",
}
#: phrases that name no object, though a word in them does
_OTHERS = (
    "train track", "train station", "bus stop", "bus station", "tennis court", "baseball field", "baseball game",
    "baseball player", "soccer player", "football player", "basketball player", "tennis player", "baseball cap",
    "orange juice", "dog house", "bird house", "car park", "book shelf", "table cloth", "boat house", "apple pie",
    "carrot cake", "orange color",
)  # fmt: skip
_IRREGULAR = {
    "men": "man", "women": "woman", "children": "child", "policemen": "policeman", "firemen": "fireman", "people": "person",
    "persons": "person", "knives": "knife", "calves": "calf", "geese": "goose", "mice": "mouse", "wives": "wife", "buses": "bus",
    "glasses": "glasses", "skis": "skis", "scissors": "scissors", "bus": "bus", "tennis": "tennis", "gentlemen": "gentleman",
}  # fmt: skip


#: words for people that qualify a noun instead, as in "a baby elephant" and "the passenger seat". The authors' script has baby
#: and adult before animals, and passenger before jet and train
_QUALIFIERS = (
    (
        ("baby", "adult", "mother", "father"),
        ("bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe"),
        (
            "animal",
            "goat",
            "deer",
            "monkey",
            "pig",
            "hippo",
            "rhino",
            "lion",
            "tiger",
            "panda",
            "seal",
            "stroller",
            "carriage",
            "crib",
        ),
    ),
    (
        ("passenger",),
        ("airplane", "bus", "train", "boat", "car", "truck"),
        ("rail", "seat", "side", "door", "window", "compartment"),
    ),
)


def _phrases() -> dict[tuple[str, ...], str | None]:
    phrases: dict[tuple[str, ...], str | None] = {tuple(text.split()): None for text in _OTHERS}
    for category, synonyms in WORDS.items():
        for phrase in (category, *filter(None, (text.strip() for text in synonyms.split(",")))):
            phrases.setdefault(tuple(phrase.split()), category)
    for words, categories, extra in _QUALIFIERS:
        objects = {phrase: category for phrase, category in phrases.items() if category in categories}
        objects |= dict.fromkeys((name,) for name in extra)
        phrases |= {(word, *phrase): category for word in words for phrase, category in objects.items()}
    # a player of a game is a person
    return phrases | {phrase: "person" for phrase in phrases if phrase[-1] == "player"}


_PHRASES = _phrases()
_LONGEST = max(map(len, _PHRASES))


def mentioned(tokens: str) -> list[str]:
    """The categories that a caption names, in order; ``tokens`` in lower case with a space between them."""
    words = tokens.split()
    categories: list[str] = []
    place = 0
    while place < len(words):
        for size in range(min(_LONGEST, len(words) - place), 0, -1):
            before, last = tuple(words[place : place + size - 1]), words[place + size - 1]
            # glasses alone are spectacles; after another word they are a plural of glass
            forms = (last, _singular(last), *(["glass"] if last == "glasses" and before else []))
            match = next((phrase for form in forms if (phrase := (*before, form)) in _PHRASES), None)
            if match is not None:
                category = _PHRASES[match]
                categories += [category] if category is not None else []
                place += size
                break
        else:
            place += 1
    return categories


def read_instances(path: Path) -> dict[int, set[str]]:
    """Of a COCO instances file (plain or gzipped), the categories of each image. UserError if it is none."""
    values = read_json_value(path)
    try:
        return _categories(values)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is no instances file of COCO ({type(error).__name__}: {str(error)[:100]})") from None


def _categories(values: Any) -> dict[int, set[str]]:
    names = {entry["id"]: entry["name"] for entry in values["categories"]}
    by_image: dict[int, set[str]] = {int(image["id"]): set() for image in values["images"]}
    for entry in values["annotations"]:
        by_image.setdefault(int(entry["image_id"]), set()).add(names[entry["category_id"]])
    return by_image


def _singular(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
