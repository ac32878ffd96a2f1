"""A request for a table to the fields of a reservation, as JSON."""

import json

from tasks.common import Case, PEOPLE, number_split, random_words

NAME = "json-fields"

GUESTS = number_split(2, 59)  # None is held out whose tens training lacks.
HOURS = (11, 12, 13, 17, 18, 19, 20, 21)
MINUTES = (0, 15, 30, 45)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# A training request is put together from one of each, in any order: that what counts is a name, a
# number, a day and a time, wherever they stand, is to be learned. What stands around them is every
# other time any words, so that no sentence is learned by heart.
GREETINGS = ("", "", "", "Hello!", "Hi,", "Good morning,", "Dear team,", "Hey,", "One question:")
PARTIES = ("a table for {guests}", "{guests} people", "we are {guests}", "for {guests} guests",
           "{guests} seats", "{guests} persons", "a party of {guests}", "{guests} of us",
           "places for {guests}", "with {guests} friends in all")
DAYS_ASKED = ("on {day}", "{day}", "this {day}", "next {day}", "coming {day}", "for {day}")
TIMES = ("at {time}", "{time}", "around {time}", "from {time}", "about {time}", "{time} sharp")
NAMES = ("name {name}", "{name} here", "my name is {name}", "under the name {name}", "for {name}",
         "this is {name}", "Thanks, {name}", "{name}", "reserved by {name}", "signed {name}",
         "Mr {name}", "Yours, {name}", "it is {name}", "{name} wants to come", "I'm {name}",
         "{name} and friends")
JOINTS = (", ", ", ", " ", "; ", ": ", ". ", "? ", "! ", " and ")
ENDS = (".", "", "?", " please.", "!", ", thank you.")

HELD_OUT = (
    "Good evening, {name} speaking, we would be {guests} on {day} around {time}.",
    "Do you have room for {guests} at {time} on {day}? The name is {name}.",
    "{day} at {time} for {guests}, please. {name}",
    "I am {name} and want to eat with you on {day} at {time}; there are {guests} of us.")


NO_FILLERS = frozenset(day.lower() for day in DAYS)


def capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def part(rng, kind, field: str) -> str:
    """One of `kind`, or any words around the field; before a name there is one, for what begins a
    sentence says nothing with its capital letter."""
    if rng.random() < 0.5:
        return rng.choice(kind)
    before = random_words(rng, 3, NO_FILLERS)
    if not before and field == "{name}":
        return rng.choice(kind)
    return " ".join([*before, field, *random_words(rng, 2, NO_FILLERS)])


def greeting(rng) -> str:
    words = random_words(rng, 2, NO_FILLERS)
    if not words or rng.random() < 0.5:
        return rng.choice(GREETINGS)
    return capitalize(" ".join(words)) + rng.choice((",", "!", "?", ".", ":"))


def training_template(rng) -> str:
    parts = [part(rng, PARTIES, "{guests}"), part(rng, DAYS_ASKED, "{day}"), part(rng, TIMES, "{time}"),
             part(rng, NAMES, "{name}")]
    rng.shuffle(parts)
    text = parts[0]
    for each in parts[1:]:
        joint = rng.choice(JOINTS)
        text += joint + (capitalize(each) if joint[0] in ".?!" else each)
    return capitalize(f"{greeting(rng)} {text}".strip()) + rng.choice(ENDS)


def case(rng, held_out: bool) -> Case:
    fields = {"name": PEOPLE.pick(rng, held_out, kinds=7), "guests": GUESTS.pick(rng, held_out),
              "day": rng.choice(DAYS), "time": f"{rng.choice(HOURS)}:{rng.choice(MINUTES):02}"}
    template = rng.choice(HELD_OUT) if held_out else training_template(rng)
    return Case(template.format(**fields), json.dumps(fields))
