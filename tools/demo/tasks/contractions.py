"""A style transfer: the same sentence without contractions."""

from tasks.common import CITIES, PEOPLE, PRODUCTS, Case, Split

NAME = "formal"

# (as spoken, as written)
FORMS = (("can't", "cannot"), ("don't", "do not"), ("won't", "will not"), ("didn't", "did not"),
         ("couldn't", "could not"), ("shouldn't", "should not"), ("wouldn't", "would not"))
SUBJECTS = (("I'm", "I am"), ("we're", "we are"), ("they're", "they are"), ("you're", "you are"))
FUTURES = (("I'll", "I will"), ("we'll", "we will"), ("they'll", "they will"), ("you'll", "you will"))

# {n} a negation, {s} a subject with "to be", {f} one with "will", {p} {c} {i} as in tasks.sql
SENTENCES = Split(
    ["We {n} see the {i}.", "I {n} believe that {s} in {c}.", "{f} buy the {i}, but {p} {n}.",
     "{p} says {s} late.", "They {n} go to {c} with {p}.", "If {s} ready, {f} go to {c}.",
     "You {n} need the {i} in {c}.", "{f} tell {p} that {s} here.", "{s} sure that they {n} know {p}.",
     "I hope {f} bring the {i}.", "{p} and I {n} find the {i}.", "{s} from {c} and {f} stay."],
    ["I {n} think that {p} has the {i}.", "{f} be in {c}, and {s} glad.", "We {n} know {p} from {c}.",
     "{s} sorry, but I {n} bring the {i}."])


def case(rng, held_out: bool) -> Case:
    template = SENTENCES.pick(rng, held_out)
    pairs = {"n": rng.choice(FORMS), "s": rng.choice(SUBJECTS), "f": rng.choice(FUTURES)}
    names = {"p": PEOPLE.pick(rng, held_out), "c": CITIES.pick(rng, held_out),
             "i": PRODUCTS.pick(rng, held_out)}
    texts = [template.format(**names, **{key: pair[i] for key, pair in pairs.items()})
             for i in range(2)]
    spoken, written = (text[0].upper() + text[1:] for text in texts)
    return Case(spoken, written)
