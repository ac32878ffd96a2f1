"""A style transfer: the same text without contractions."""

import dictionary
from tasks.common import CITIES, PEOPLE, PRODUCTS, Case

NAME = "formal"

# (as spoken, as written)
NEGATIONS = (("can't", "cannot"), ("don't", "do not"), ("won't", "will not"), ("didn't", "did not"),
             ("couldn't", "could not"), ("shouldn't", "should not"), ("wouldn't", "would not"))
BEINGS = (("I'm", "I am"), ("we're", "we are"), ("they're", "they are"), ("you're", "you are"))
FUTURES = (("I'll", "I will"), ("we'll", "we will"), ("they'll", "they will"), ("you'll", "you will"))

# {n} a negation, {s} a subject with "to be", {f} one with "will", {p} a person, {c} a city, {i} a
# product. Training puts sentences together from these …
OPENINGS = ("", "", "", "I think ", "We know that ", "{p} says that ", "perhaps ", "yesterday ",
            "I hope ", "of course ", "in {c} ", "if so, ", "it seems that ", "please tell {p} that ")
WHO = ("I", "we", "they", "you", "{p} and I", "the people of {c}", "my friends")
VERBS = ("see", "buy", "find", "bring", "take", "need", "want", "like", "sell", "open", "visit", "believe",
         "remember", "carry", "paint", "use", "keep", "hear", "trust", "call", "meet", "understand", "lose",
         "wash", "know")
OBJECTS = ("the {i}", "the {i}", "{p}", "{c}", "it", "the {i} in {c}", "{p} and {p}", "a {i} for {p}",
           "the old {i} of {p}", "anything", "her {i}", "what {p} said", "that {p} likes {c}",
           "the road to {c}")
STATES = ("late", "ready", "here", "tired", "in {c}", "at home", "with {p}", "happy", "hungry",
          "friends of {p}", "on the way to {c}", "old", "not alone", "afraid of the {i}", "glad of it")
JOINTS = (", and ", ", but ", " because ", ". ", ", so ", " when ", " and ")
# … and lists of any words: nothing but contractions is to be changed.
HELD_OUT = ("I {n} think that {p} has the {i}.", "{f} be in {c}, and {s} glad.",
            "We {n} know {p} from {c}.", "{s} sorry, but I {n} bring the {i}.")


def clause(rng) -> str:
    kind = rng.randrange(3)
    if kind == 0:
        return "{s} " + rng.choice(STATES)
    who = "{f} " if kind == 1 else rng.choice(WHO) + " {n} "
    return who + rng.choice(VERBS) + " " + rng.choice(OBJECTS)


def training_template(rng) -> str:
    if rng.random() < 0.4:
        words = [rng.choice(dictionary.words()) for _ in range(rng.randint(2, 6))]
        for _ in range(rng.randint(1, 3)):
            words.insert(rng.randint(0, len(words)), rng.choice(("{n}", "{s}", "{f}", "{p}", "{c}", "{i}")))
        return " ".join(words) + rng.choice((".", "", "?"))
    text = rng.choice(OPENINGS) + clause(rng)
    if rng.random() < 0.6:
        text += rng.choice(JOINTS) + clause(rng)
    return text + rng.choice((".", ".", "!"))


def case(rng, held_out: bool) -> Case:
    template = rng.choice(HELD_OUT) if held_out else training_template(rng)
    spoken = written = ""
    # Every place has a value of its own.
    for i, part in enumerate(template.replace("}", "{").split("{")):
        if i % 2 == 0:
            pair = (part, part)
        elif part in "nsf":
            pair = rng.choice({"n": NEGATIONS, "s": BEINGS, "f": FUTURES}[part])
        else:
            name = {"p": PEOPLE, "c": CITIES, "i": PRODUCTS}[part].pick(rng, held_out)
            pair = (name, name)
        spoken, written = spoken + pair[0], written + pair[1]
    return Case(spoken[0].upper() + spoken[1:], written[0].upper() + written[1:])
